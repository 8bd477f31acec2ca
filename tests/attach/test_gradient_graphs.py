"""What `backward(create_graph=True)` keeps of models that are gone is told; a collection is not said to free it."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

from gputui.explain.answer.answers import Answer
from tests.attach.children import Python
from tests.attach.command import attach
from tests.attach.following import follow, of_kind

LOOP = """
    import gputui.probe, gc, torch
    from torch import nn

    def inner():
        model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(2)]).cuda()
        model(torch.zeros(8, 1024, device="cuda")).tanh().sum().backward(create_graph=True)

    for _ in range(40):
        inner()
    gc.collect()
    print("ready", flush=True)
    input()
"""
PARAMETERS_BYTES = 40 * 2 * 1024 * 1024 * 4


def test_a_look_on_request_names_what_gradients_keep(cuda_python: Python):
    source = textwrap.dedent(LOOP)
    child = cuda_python.fork(source)
    child.expect("ready")
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    found = next(finding for finding in document["findings"] if finding["kind"] == "kept_by_gradient_graph")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "create_graph" in text)
    assert re.match(
        rf"backward\(create_graph=True\) \(\w+\.py:{line} in inner\) keeps models that are gone: ", found["title"]
    )
    assert found["bytes"] == pytest.approx(2 * PARAMETERS_BYTES, rel=0.01)
    assert "Set the .grad of its parameters to None" in found["remedy"]
    assert "kept_by_cycle" not in {finding["kind"] for finding in document["findings"]}


def test_automatic_looks_name_it_too(cuda_python: Python):
    """Parameters to which only the graph leads are parameters, although an operation has saved them."""
    child = cuda_python.fork(LOOP)
    child.expect("ready")
    kept = follow(child.attach(), lambda answer: bytes_kept(answer) >= 2 * PARAMETERS_BYTES)
    assert bytes_kept(kept) == pytest.approx(2 * PARAMETERS_BYTES, rel=0.01)


def bytes_kept(answer: Answer) -> int:
    found = of_kind(answer, "kept_by_gradient_graph")
    return 0 if found is None or found.bytes is None else found.bytes
