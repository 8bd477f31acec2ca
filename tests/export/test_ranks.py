"""The counters of real programs with a probe: equal to the attach document's, and a hung program delays no page."""

from __future__ import annotations

import json
import os
import signal

import pytest

from gputui.sources.probe.elsewhere import ProbesElsewhere
from tests.attach.children import Python
from tests.attach.command import attach
from tests.attach.small_training import ASLEEP, TRAINING
from tests.export.pages import OPEN_METRICS, PLAIN, Page, exporter, get
from tests.hanging import HANGS_S

HANGING = """
import ctypes, gputui.probe
print("ready", flush=True)
input()
ctypes.PyDLL(None).sleep(600)  # keeps the interpreter to itself
"""


def test_values_are_those_of_the_attach_document(cuda_python: Python) -> None:
    child = cuda_python.fork(TRAINING + ASLEEP, RANK="3", WORLD_SIZE="8")
    child.expect("ready")
    hanging = cuda_python.start(HANGING, LD_PRELOAD="")
    hanging.expect("ready")
    variables = {name: cuda_python.environment[name] for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    with exporter(environment=variables) as url:
        pages = [scraped(url, {child.pid: 1}, kind) for kind in (PLAIN, OPEN_METRICS)]
        hanging.say("")
        late = scraped(url, {child.pid: 1, hanging.pid: 0})
        assert f"rocess {hanging.pid} " in get(url)
    (device,) = document["devices"]
    of = {"UUID": device["uuid"], "gpu": device["nvml_index"], "pid": child.pid}
    for page in (*pages, late):
        for name, value in expected(device).items():
            assert page.of(f"gputui_{name}", **of) == [value], name
        assert page.of("gputui_torch_reserved_bytes", rank=3, **of)
        assert page.of("gputui_torch_probe_up", pid=child.pid) == [1]
        assert page.of("gputui_device_memory_used_bytes", UUID=device["uuid"]) == [device["nvml"]["device_used_bytes"]]
        (info,) = [labels for labels in page.labels("gputui_process_info") if labels["pid"] == str(child.pid)]
        assert (info["rank"], info["world_size"]) == ("3", "8")
    assert late.of("gputui_torch_probe_up", pid=hanging.pid) == [0]
    assert late.of("gputui_scrape_source_errors_total", source="probe") >= [1]


def scraped(url: str, probes: dict[int, int], kind: str = PLAIN) -> Page:
    """A page with these answers of probes, on which nothing else was late: a machine can be busier than deadlines."""
    while True:
        page = Page(get(f"{url}metrics", kind), kind)
        answers = [page.of("gputui_torch_probe_up", pid=pid) == [up] for pid, up in probes.items()]
        if all(answers) and page.of("gputui_nvml_up") == [1] and page.labels("gputui_process_info"):
            return page


def expected(device: dict) -> dict[str, int]:
    """Metrics and their values, as a device of the attach document has them."""
    allocator = device["allocator"]
    same = ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "peak_allocated_bytes")
    return {
        **{f"torch_{name}": allocator[name] for name in (*same, "peak_reserved_bytes")},
        "torch_outside_bytes": device["outside_torch_bytes"],
        "torch_out_of_memory_errors_total": allocator["num_ooms"],
        "torch_allocation_retries_total": allocator["num_alloc_retries"],
        "process_memory_used_bytes": device["nvml"]["process_used_bytes"],
    }


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_programs_in_containers_are_asked_by_their_pids(cuda_python: Python) -> None:
    script = "import gputui.probe, os\nprint('ready', os.getpid(), flush=True)\ninput()"
    folder = f"/tmp/gputui-{os.getuid()}"  # where sockets are without XDG_RUNTIME_DIR
    how = f'mkdir -p -m 700 {folder} && mount -t tmpfs -o mode=700 none {folder} && exec "$0" "$@"'
    words = ["unshare", "--mount", "sh", "-e", "-c", how, cuda_python.path, "-c", script]
    child = cuda_python.run(words, XDG_RUNTIME_DIR="", LD_PRELOAD="")
    pid = int(child.expect("ready"))
    without = cuda_python.run(["unshare", "--mount", "sh", "-c", "echo ready; read line"], LD_PRELOAD="")
    without.expect("ready")
    probes = ProbesElsewhere()
    for _ in range(2):
        (probe,) = probes.read([pid, without.pid, os.getpid()], HANGS_S)
        assert (probe.pid, probe.problem) == (pid, "")
        assert probe.greeting is not None
    child.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    (probe,) = probes.read([pid, without.pid], HANGS_S)
    assert (probe.greeting, "is stopped" in probe.problem) == (None, True)
