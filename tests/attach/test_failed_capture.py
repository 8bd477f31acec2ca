"""What a failed capture of a CUDA graph keeps is said in the first lines, by its bytes, where PyTorch keeps it."""

from __future__ import annotations

from gputui.units import format_bytes
from tests.attach.children import Python
from tests.attach.command import attach

FAILED = """
    import gputui.probe, gc, torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.zeros(1, device="cuda")
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin()
            rows = torch.zeros(96 << 20, device="cuda", dtype=torch.uint8)
            raise ValueError("the step failed")
    except ValueError:
        pass
    del graph, rows
    gc.collect()
    torch.cuda.empty_cache()
    print("ready", torch.cuda.memory_reserved(), flush=True)
    input()
"""


def test_the_first_lines_say_that_a_failed_capture_keeps_it(cuda_python: Python):
    child = cuda_python.fork(FAILED)
    kept_bytes = int(child.expect("ready"))
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    answer = " ".join(attach(str(child.pid), "--once", environment=variables)[1].splitlines()[:3])
    words = f"A failed capture of a CUDA graph most likely keeps {format_bytes(kept_bytes)} that nothing uses"
    assert (words in answer) == bool(kept_bytes)  # PyTorch 2.13 and newer return it
