"""A program has files and functions of its own by names of the standard library and of builtins: none of them runs."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from gputui.sources.probe import listing, loading
from tests.attach.children import LIMIT_S, Child, Python, words_of_gputui

PROGRAM = """
    import builtins, sys, torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights = [torch.zeros(1024, 256, device=device) for _ in range(8)]
    sys.path.insert(0, "beside")
    kept = set(sys.modules)
    for name in {gone}:
        for module in [module for module in sys.modules if module.partition(".")[0] == name]:
            del sys.modules[module]
    {then}
    values, ran = vars(builtins), []
    class Finder:
        def find_spec(name, path=None, target=None):
            ran.append("finder for " + name)
    sys.meta_path.insert(0, Finder)
    saved = dict(values)
    for name in {replaced}:
        values[name] = lambda *_, name=name, **__: ran.append(name)
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    sys.stdin.readline()
    values.update(saved)
    sys.meta_path.remove(Finder)
    print("new", *[name for name in set(sys.modules) - kept if not name.startswith("gputui")], flush=True)
    print("ran", *ran, flush=True)
"""
GONE = ("ast", "dis", "inspect", "opcode", "zlib", "json", "shlex", "linecache", "resource", "heapq", "bisect", "re")
"""Modules that this program has not imported: torch has, in others."""
OFTEN = ("breakpoint", "input", "open", "print")
"""Libraries replace these."""
RUNS = 'import posix; posix.mkdir("ran-" + __name__)'


def begin(python: Python, *, imports: bool, replaced: tuple[str, ...]) -> Child:
    beside = python.folder / "beside"
    beside.mkdir()
    for name in sys.stdlib_module_names:
        (beside / f"{name}.py").write_text(RUNS)
    source = PROGRAM.format(gone=GONE, then="import gputui.probe" if imports else "pass", replaced=replaced)
    child = python.start(source)
    child.expect("ready")
    return child


@pytest.mark.parametrize(("way", "replaced"), [("imported", ()), ("put in", OFTEN)], ids=["imported", "put in"])
def test_what_has_a_name_of_the_standard_library_is_the_programs(
    torch_python: Python, way: str, replaced: tuple[str, ...]
) -> None:
    child = begin(torch_python, imports=way == "imported", replaced=replaced)
    if way == "put in":
        loading.put_probe_in(child.pid, lambda _sentence: None)
    with listing.attach(child.pid) as client:
        look = client.look("scan", wait_s=LIMIT_S)
    assert look.inventory is not None
    assert not look.problems
    names = {storage.owner for storage in look.inventory.storages}
    assert "weights[0]" in names
    child.say("end")
    assert not set(child.expect("new").split()) & set(GONE)
    assert child.expect("ran") == ""
    assert child.ended() == 0
    assert not words_of_gputui(child.errors)
    assert not [path.name for path in Path(torch_python.folder).rglob("ran-*")]


def test_a_probe_does_not_come_to_a_program_that_has_replaced_what_it_needs(torch_python: Python) -> None:
    child = begin(torch_python, imports=False, replaced=("len", "isinstance"))
    with pytest.raises(loading.CannotLoadError, match="the program has replaced Python's own isinstance, len"):
        loading.put_probe_in(child.pid, lambda _sentence: None)
    child.say("end")
    child.expect("new")
    assert child.expect("ran") == ""
    assert child.ended() == 0


NO_TORCH = "The program has not imported PyTorch yet: there is nothing to look at."
BARE = """
    import sys
    {first}
    print("ready", flush=True)
    sys.stdin.readline()
    print("end", flush=True)
"""
NAMES = (
    *(
        "array",
        "atexit",
        "collections",
        "contextlib",
        "ctypes",
        "dataclasses",
        "enum",
        "functools",
        "inspect",
        "itertools",
    ),
    *("json", "keyword", "operator", "queue", "re", "resource", "select", "signal", "socket", "struct", "threading"),
    *("types", "typing", "weakref", "zlib"),
)


@pytest.mark.parametrize("way", ["imported", "run", "put in"])
def test_a_script_with_files_by_such_names_beside_it_gets_a_probe(python: Python, way: str) -> None:
    for name in NAMES:
        (python.folder / f"{name}.py").write_text(RUNS)
    source = BARE.format(first="import gputui.probe" if way == "imported" else "")
    if way == "run":
        (python.folder / "train.py").write_text(textwrap.dedent(source))
        child = python.run([sys.executable, "-m", "gputui", "run", python.path, "train.py"], PYTHONSAFEPATH="1")
    else:
        child = python.start(source, **({} if way == "imported" else {"PYTHONPATH": ""}))
    child.expect("ready")
    if way == "put in":
        loading.put_probe_in(child.pid, lambda _sentence: None)
    with listing.attach(child.pid) as client:
        assert [problem.text for problem in client.look().problems] == [NO_TORCH]
    child.say("end")
    child.expect("end")
    assert (child.ended(), child.errors) == (0, "")
    assert not [path.name for path in python.folder.rglob("ran-*")]


WATCHING = """
    import posix, sys
    print("ready", flush=True)
    seen = set()
    while "stop" not in posix.listdir("."):
        seen.add(getattr(sys.modules.get("typing"), "__name__", None))
    print("seen", *seen, flush=True)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="C code of Python 3.12 needs the copy there for a moment")
def test_a_program_that_imports_meanwhile_never_finds_a_module_of_the_probe(python: Python) -> None:
    (python.folder / "this.py").write_text(RUNS)
    child = python.start(WATCHING, PYTHONPATH="")
    child.expect("ready")
    loading.put_probe_in(child.pid, lambda _sentence: None)
    with listing.attach(child.pid) as client:
        client.look()
    (python.folder / "stop").write_text("")
    assert child.expect("seen") == "None"
