"""The fake CUDA's clock: what is queued on a stream runs one after the other, beside what other streams do."""

from __future__ import annotations

import json

from tests.attach.children import Python

PROGRAM = """
    import json, torch
    ones = torch.ones(64, 64, device="cuda")
    torch.cuda.synchronize()
    def add(times):
        for _ in range(times):
            ones.add_(1)
    def event():
        made = torch.cuda.Event(enable_timing=True)
        made.record()
        return made
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    start = event()
    add(10)
    added = event()
    is_done_at_once = added.query()
    torch.mm(ones, ones)
    multiplied = event()
    first = ones[0, 0].item()
    is_done_after_read = multiplied.query()
    with torch.cuda.stream(one):
        before = event()
        add(50)
        on_one = event()
    with torch.cuda.stream(other):
        add(1)
        beside = event()
    other.wait_stream(one)
    with torch.cuda.stream(other):
        add(1)
        behind = event()
    torch.cuda.synchronize()
    graph, value = torch.cuda.CUDAGraph(), torch.ones(8, device="cuda")
    with torch.cuda.graph(graph):
        for _ in range(20):
            value = value + 1
    torch.cuda.synchronize()
    graph_start = event()
    graph.replay()
    graph_end = event()
    torch.cuda.synchronize()
    print("times", json.dumps({
        "add": start.elapsed_time(added), "multiply": added.elapsed_time(multiplied),
        "is_done_at_once": is_done_at_once, "is_done_after_read": is_done_after_read,
        "one": before.elapsed_time(on_one), "beside": before.elapsed_time(beside),
        "behind": before.elapsed_time(behind),
        "graph": graph_start.elapsed_time(graph_end),
    }), flush=True)
"""


def test_kernels_of_a_stream_follow_each_other_and_those_of_others_run_beside_them(cuda_python: Python) -> None:
    child = cuda_python.fork(PROGRAM, FAKEGPU_KERNEL_US="20000")
    times = json.loads(child.expect("times"))
    assert times["add"] >= 10 * 20
    assert times["multiply"] >= 20
    assert not times["is_done_at_once"], "the host waited for kernels that it had only launched"
    assert times["is_done_after_read"], "item() returned before the stream had done its work"
    assert times["one"] >= 50 * 20
    assert times["beside"] < times["one"], "the streams ran one after the other"
    assert times["behind"] >= times["one"] + 20
    assert times["graph"] >= 20 * 20
