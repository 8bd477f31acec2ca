"""A program with an audit hook that refuses what the probe asks Python for: the hook's exceptions stay in the probe."""

from __future__ import annotations

import textwrap

import pytest

from gputui.errors import GputuiError
from gputui.sources.probe import loading
from tests.attach.children import Child, Python

PROGRAM = """
    import sys
    events = sys.argv[1].split()
    raised = []

    def hook(event, arguments):
        if is_armed and event in events:
            raised.append(event)
            raise RuntimeError("this program allows no " + event)

    is_armed = False
    sys.addaudithook(hook)
    print("ready", flush=True)
    sys.stdin.readline()
    is_armed = True
    while not raised:
        sum(range(1000))
    print("raised", flush=True)
    sys.stdin.readline()
    is_armed = False
    print("end", len(range(3)), flush=True)
"""
REFUSED = {
    "frames": "object.__getattr__ sys._current_frames sys._getframe",
    "sockets": "socket.__new__ open os.listdir",
    "code": "import exec compile marshal.loads code.__new__ ctypes.dlsym",
}
UNTOLD = {("imported", "sockets"): "status\\(\\) in it says why", ("put in", "code"): "audit hook"}
"""Where the probe cannot say what the hook has raised."""


def look(child: Child, way: str) -> None:
    if way == "put in":
        loading.put_probe_in(child.pid, lambda _sentence: None)
    with child.attach() as client:
        client.look()


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("way", ["imported", "put in"])
def test_what_an_audit_hook_raises_in_the_probe_is_a_sentence(python: Python, refused: str, way: str) -> None:
    source = "import gputui.probe\n" + textwrap.dedent(PROGRAM) if way == "imported" else PROGRAM
    child = python.start(source, REFUSED[refused])
    child.expect("ready")
    child.say("go")
    with pytest.raises(GputuiError, match=UNTOLD.get((way, refused), "this program allows no")):
        look(child, way)
    child.expect("raised")
    child.say("end")
    assert child.expect("end") == "3"
    assert (child.ended(), child.errors) == (0, "")
