"""A second copy of a model's weights is told, with its bytes and what to do: in programs as people write them."""

from __future__ import annotations

import json

import pytest

from tests.attach.children import Python
from tests.attach.command import attach

MODEL = """
    import gputui.probe, io, torch
    from torch import nn

    def make():
        with torch.device("cuda"):
            model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(16)))
        return model, torch.optim.AdamW(model.parameters(), fused=True)

    model, optimizer = make()
    model(torch.zeros(8, 2048, device="cuda")).sum().backward()
    optimizer.step()
"""
ASLEEP = """
    print("ready", flush=True)
    input()
"""
RESUMED = """
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    checkpoint = torch.load(file, map_location="cuda")
    model, optimizer = make()
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
"""
BEST = """
    class Trainer:
        pass

    trainer = Trainer()
    trainer.best = {name: weight.clone() for name, weight in model.state_dict().items()}
"""
AVERAGES = """
    shadow = [weight.detach().clone() for weight in model.parameters()]
"""
HALF = """
    weights = {name: weight.half() for name, weight in model.named_parameters()}
"""
WEIGHTS_BYTES = 16 * (2048 * 2048 + 2048) * 4
COPIES = {
    "a checkpoint after resuming": (RESUMED, "checkpoint['model'][*]", WEIGHTS_BYTES, "(del checkpoint)"),
    "the best weights": (BEST, "trainer.best[*]", WEIGHTS_BYTES, "host memory (.cpu())"),
    "averages": (AVERAGES, "shadow[*]", WEIGHTS_BYTES, "Keep the averages in host memory"),
    "half precision": (HALF, "weights[*]", WEIGHTS_BYTES // 2, "torch.autocast needs no such copy"),
}


@pytest.mark.parametrize(("source", "name", "size_bytes", "remedy"), COPIES.values(), ids=COPIES)
def test_a_copy_of_the_weights_is_one_finding_with_its_remedy(cuda_python: Python, source, name, size_bytes, remedy):
    child = cuda_python.fork(MODEL + source + ASLEEP)
    child.expect("ready")
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    (found,) = [finding for finding in document["findings"] if finding["kind"] == "weight_copy"]
    assert found["title"].startswith(f"{name} holds a copy of the weights of model")
    assert found["bytes"] == pytest.approx(size_bytes, rel=0.01)
    assert remedy in found["remedy"]
    printed = attach(str(child.pid), "--once", environment=variables)[1]
    assert f"  {name}" in printed.partition("Tensors on cuda:0")[2]


WITHIN_THE_STEP = """
    divide = torch._foreach_addcdiv_

    def stop(*given):
        print("ready", flush=True)
        input()
        divide(*given)

    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    torch._foreach_addcdiv_ = stop
    optimizer.step()
"""


def test_what_an_optimizer_computes_with_during_its_step_is_no_copy_of_the_weights(cuda_python: Python):
    child = cuda_python.fork(MODEL + WITHIN_THE_STEP)
    child.expect("ready")
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    groups = [name for group in document["devices"][0]["tensors"]["groups"] for name in group["names"]]
    assert any("exp_avg_sq_sqrt" in name for name in groups)
    assert "weight_copy" not in [finding["kind"] for finding in document["findings"]]
