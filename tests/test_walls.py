"""Rules of the architecture that a linter cannot check: imports at run time, file lengths, and module names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gputui"
FOREIGN = ("textual", "rich", "pynvml", "psutil", "torch", "prometheus_client", "yaml")
LINES_AT_MOST = 330
FILES_AT_MOST = 12
ROOMS = ("explain", "inject", "model", "probe", "settings", "ui/drawing")
IN_ANY_PYTHON = [
    *sorted(PACKAGE.glob("pro[bt]*/**/*.py")),
    PACKAGE / "environment.py",
    PACKAGE / "inject" / "ways" / "bootstrap.py",
]
GENERICS = {
    *("dict", "list", "tuple", "set", "frozenset", "type", "deque", "Counter", "defaultdict", "OrderedDict", "partial"),
    *(
        "Callable",
        "Iterable",
        "Iterator",
        "Mapping",
        "Sequence",
        "weakref.ref",
        "functools.partial",
        "re.Pattern",
        "re.Match",
    ),
}


@pytest.mark.parametrize("module", ["gputui.probe", "gputui.protocol", "gputui.model", "gputui.explain", "gputui.cli"])
def test_an_import_loads_no_library(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {FOREIGN!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"GPUTUI_PROBE": "0", "PATH": ""}
    )
    assert result.stdout.split() == []


def test_no_file_is_too_long() -> None:
    assert [path for path in PACKAGE.rglob("*.py") if len(path.read_text().splitlines()) > LINES_AT_MOST] == []


def folders() -> list[Path]:
    return [path.parent for room in ROOMS for path in sorted((PACKAGE / room).rglob("__init__.py"))]


def test_a_folder_has_few_files_and_says_what_they_are_for() -> None:
    for folder in folders():
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) <= FILES_AT_MOST, folder
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), folder


def test_no_module_has_a_catch_all_name() -> None:
    forbidden = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in forbidden]


def test_what_runs_in_somebody_elses_python_can_be_imported_by_3_8() -> None:
    """There, `dict[str, int]` is an error but in annotations, which are never evaluated."""
    assert {path: found for path in IN_ANY_PYTHON if (found := evaluated_generics(path))} == {}


def evaluated_generics(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if isinstance(annotation := getattr(node, field, None), ast.AST)
        for part in ast.walk(annotation)
    }
    from_typing = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names
    }
    generics = GENERICS - from_typing
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and id(node) not in annotations and ast.unparse(node.value) in generics
    ]


OPENERS = {
    "inject/process/foreign_files.py": "folders below the root of another process",
    "inject/process/images.py": "/proc/PID/maps and mem, which the kernel makes",
    "inject/process/process_facts.py": "/proc/PID and the namespaces in it, which the kernel makes",
    "inject/ways/payload.py": "gputui's own modules",
    "inject/ways/bootstrap.py": "runs in the program: its own script",
    "sources/procfs.py": "/proc, which the kernel makes",
    "sources/cgroups.py": "/proc/self and /sys/fs/cgroup, which the kernel makes",
    "sources/owners/node_files.py": "folders of root's or that the user names; their files as regular files",
    "sources/nccl/client.py": "a TCP port of this machine, after its owner was found",
    "sources/listening.py": "/proc/PID/fd, which the kernel makes",
    "sources/probe/listing.py": "/proc/PID/uid_map, which the kernel makes",
    "sources/probe/main_thread_place.py": "/proc/PID/task, which the kernel makes",
    "sources/probe/client.py": "a socket that another module has checked",
    "sources/probe/presence.py": "the folders of this user's own sockets, checked",
    "sources/probe/never_programs.py": "a file of this user's own, checked",
    "sources/files/recording/recorder.py": "the file that the user names for a recording",
    "sources/files/black_box_folder.py": "the folder that the user names",
    "sources/rehearsal.py": "a file in a new folder of its own",
    "sources/check_files.py": "the files that the user names for a baseline, and that CI names for a page",
}
"""What may open or list files in these packages, and which: all others go through one of the first kind."""
OPENING = {"open", "read_text", "read_bytes", "listdir", "scandir", "iterdir", "glob", "rglob", "unlink", "connect"}


def test_what_other_users_may_have_made_is_opened_in_one_place() -> None:
    found = set()
    for path in (*PACKAGE.glob("inject/**/*.py"), *PACKAGE.glob("sources/**/*.py")):
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if called in OPENING:
                found.add(name)
            is_root = isinstance(node, ast.Constant) and "/root" in str(node.value) and "/proc" not in name
            assert not is_root or name == "inject/process/foreign_files.py", f"{name}: {ast.unparse(node)}"
    assert found == set(OPENERS)
