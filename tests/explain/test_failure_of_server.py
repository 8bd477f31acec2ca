"""Out of memory in an inference server: what it did, as its stack shows, and what its people can change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.documents.attach import attach_document
from gputui.explain.failure.sections import sections_of
from gputui.explain.failure.servers import ACTIVITIES, server_moment
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.serving import Serving, ServingSettings
from gputui.model.attached.tensors import Category
from gputui.units import GIB
from tests.explain.moments import Tensor
from tests.explain.test_failure import MODULE, failed

PACKAGES = "/venv/lib/python3.11/site-packages"
WORKER = f"{PACKAGES}/vllm/v1/worker/gpu_worker.py"
RUNNER = f"{PACKAGES}/vllm/v1/worker/gpu_model_runner.py"
SERVER = Serving(
    "vLLM", "0.33.0", "engine core", ServingSettings(gpu_memory_utilization=0.9, max_num_seqs=1024, max_model_len=4096)
)


def stack(*functions: str, file: str = RUNNER) -> tuple[CallSite, ...]:
    """Lines of the server, the innermost first, below a module's forward."""
    return (MODULE, *(CallSite(file, 1, function) for function in functions), CallSite("/home/ana/serve.py", 9, "main"))


CASES = {
    "weights": (stack("load_model"), "while vLLM loaded its weights", "--tensor-parallel-size"),
    "profiling": (stack("_dummy_run", "profile_run", "determine_available_memory"), "profiling run", "batched-tokens"),
    "sampler": (stack("_dummy_sampler_run", "profile_run"), "trial run of vLLM's sampler", "max_num_seqs (now 1,024)"),
    "cache": (stack("initialize_kv_cache", "initialize_from_config"), "its KV cache", "utilization (now 0.9)"),
    "graphs": (stack("_dummy_run", "capture_model"), "while vLLM captured CUDA graphs", "--enforce-eager needs none"),
    "LoRA": (stack("add_adapter", "execute_model"), "loaded a LoRA adapter", "--max-lora-rank"),
    "a batch": (stack("execute_model"), "while vLLM ran a batch", "no prompt_logprobs"),
    "buffers": (stack("__init__", "init_device", file=WORKER), "made its buffers", "max_model_len (now 4,096)"),
    "SGLang": (
        stack("forward_extend", file=f"{PACKAGES}/sglang/srt/model_executor/model_runner.py"),
        "while SGLang ran a prefill", "--chunked-prefill-size",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "words", "remedy"), CASES.values(), ids=CASES)
def test_it_is_told_with_the_flags_that_help(lines: tuple[CallSite, ...], words: str, remedy: str):
    held = failed(Tensor(4096, "hidden_states (gpu_model_runner.py:1 in run)", Category.OTHER), stack=lines)
    held = replace(held, serving=SERVER)
    request, _, remedies = sections_of(held)
    assert words in request.title
    assert remedy in remedies.sentences[0]
    assert "Delete" not in str(remedies)
    assert attach_document(held)["failure"]["server"] == {
        "words": request.title.removeprefix("Out of memory: 256 MiB asked for ").partition(",")[0],
        "remedy": remedies.sentences[0],
    }


def test_the_answer_is_what_would_have_helped():
    held = failed(Tensor(4096, "w", Category.PARAMETER), stack=stack("capture_model"))
    held = replace(held, serving=SERVER)
    (device,) = held.devices
    answer = in_servers_words(verdict(held, device, looks=(look_holders(held, device),)), held, device)
    assert answer is not None
    assert answer.sentence.startswith("CUDA graphs come after the KV cache: a lower --gpu-memory-utilization (now 0.9)")


def test_what_others_hold_stays_a_remedy():
    held = failed(Tensor(1024, "x"), stack=stack("load_model"), outside_mib=40 * 1024)
    _, _, remedies = sections_of(held)
    assert "--quantization" in remedies.sentences[0]
    assert "Other processes" in remedies.tables[0].rows[0].text


def test_a_cache_of_a_given_size_is_told_with_its_flag():
    settings = replace(SERVER.settings, kv_cache_memory_bytes=70 * GIB)
    moment = server_moment(stack("capture_model"), replace(SERVER, settings=settings))
    assert moment is not None
    assert "--kv-cache-memory-bytes (now 70.0 GiB)" in moment.remedy


def test_every_remedy_can_be_written_of_a_server_that_says_nothing():
    for activity in ACTIVITIES:
        for function in activity.functions:
            made = server_moment([CallSite(f"/x{activity.folder}y.py", 1, function)], None)
            assert made is not None
            assert "{" not in made.remedy


@pytest.mark.parametrize("lines", [(), stack("load_model", file="/home/ana/train.py"), stack("other")])
def test_other_programs_are_no_server(lines: tuple[CallSite, ...]):
    assert server_moment(lines, SERVER) is None
