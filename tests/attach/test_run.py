"""`gputui run`: the program runs as without it, but with the probe, also in every Python that it starts."""

from __future__ import annotations

import shutil
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from gputui import cli
from gputui.sources.probe import listing
from tests.attach.children import REPOSITORY, Child, Python

RUN = [sys.executable, "-m", "gputui", "run"]
REPORT = """
    import os, sys
    probe = sys.modules.get("gputui.probe")
    print("report", os.getpid(), probe is not None and probe.status().endswith(".sock"), sys.argv[1:], flush=True)
"""


def report_of(child: Child) -> tuple[int, str]:
    """The PID that reported, and the rest of its report."""
    pid, rest = child.expect("report").split(" ", 1)
    return int(pid), rest


@pytest.fixture
def script(python: Python) -> Path:
    path = python.folder / "train.py"
    path.write_text(textwrap.dedent(REPORT))
    return path


TRACED = """
    import os, sys, threading
    seen = set()
    def trace(frame, event, argument):
        seen.add(frame.f_code.co_filename)
    threading.settrace(trace)
    sys.settrace(trace)
    import torch
    torch.ones(1, device="cuda")
    if not os.fork():
        os._exit(0)
    os.wait()
    sys.settrace(None)
    print("own", any(name.startswith("<gputui/probe/") for name in seen), flush=True)
    print("files", [name for name in seen if name.startswith({package!r})], flush=True)
"""


def test_a_tracer_sees_no_file_of_the_probe(cuda_python: Python) -> None:
    """What runs in the program's threads and cannot be hidden is of no file: coverage reports only the program's."""
    path = cuda_python._script(TRACED.format(package=f"{REPOSITORY / 'gputui'}/"))
    child = cuda_python.run([*RUN, "--black-box", "kept", cuda_python.path, "-W", "ignore", path])
    assert child.expect("own") == "True"
    assert child.expect("files") == "[]"
    assert child.ended() == 0


FORMS = {
    "a script": ["train.py", "--lr", "1 2"],
    "a module": ["-m", "train", "--lr", "1 2"],
    "options of python": ["-u", "-X", "dev", "train.py", "--lr", "1 2"],
    "a command of the PATH": ["{python}", "train.py", "--lr", "1 2"],
    "a shell": ["sh", "-c", "exec \"$0\" train.py --lr '1 2'", "{python}"],
    "env": ["env", "A=1", "{python}", "train.py", "--lr", "1 2"],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_program_gets_the_probe(python: Python, script: Path, form: str) -> None:
    child = python.run([*RUN, *[word.format(python=python.path) for word in FORMS[form]]])
    assert report_of(child) == (child.pid, "True ['--lr', '1 2']")
    assert child.ended() == 0
    assert child.errors == ""


def test_child_processes_get_the_probe(python: Python) -> None:
    source = """
        import multiprocessing, os, subprocess, sys
        def report():
            print("report", os.getpid(), "gputui.probe" in sys.modules, flush=True)
        if __name__ == "__main__":
            code = "import sys; print('report 0', 'gputui.probe' in sys.modules, flush=True)"
            subprocess.run([sys.executable, "-c", code])
            spawned = multiprocessing.get_context("spawn").Process(target=report)
            spawned.start(); spawned.join()
    """
    (python.folder / "launch.py").write_text(textwrap.dedent(source))
    child = python.run([*RUN, python.path, "launch.py"])
    assert report_of(child)[1] == "True"
    assert report_of(child)[1] == "True"
    assert child.ended() == 0


def test_the_program_can_be_attached_to_by_its_pid(python: Python) -> None:
    (python.folder / "wait.py").write_text("print('ready', flush=True); input()")
    child = python.run([*RUN, python.path, "wait.py"])
    child.expect("ready")
    with child.attach() as client:
        assert client.greeting.pid == child.pid
        assert client.greeting.command == f"{python.path} wait.py"


def test_attaching_to_a_launcher_names_its_children(python: Python) -> None:
    (python.folder / "wait.py").write_text(
        "import os, sys; sys.stdout.write(f'ready {os.getpid()}\\n'); sys.stdout.flush(); input()"  # in one write
    )
    child = python.run([*RUN, "sh", "-c", '"$0" wait.py; true', python.path])
    pid = child.expect("ready")
    with pytest.raises(listing.CannotAttachError, match=f"processes that it started .* gputui attach {pid}"):
        child.attach()


@pytest.mark.parametrize("words", [["step", "--yes"], ["snapshot", "-o", "memory.pickle"], ["whatif", "--yes"]])
def test_a_command_about_a_launcher_names_itself_with_its_children(
    python: Python, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (python.folder / "wait.py").write_text(
        "import os, sys; sys.stdout.write(f'ready {os.getpid()}\\n'); sys.stdout.flush(); input()"  # in one write
    )
    child = python.run([*RUN, "sh", "-c", 'exec 3<&0; "$0" wait.py <&3 & "$0" wait.py; true', python.path])
    first, second = sorted(int(child.expect("ready")) for _ in range(2))
    assert cli.main([words[0], str(child.pid), *words[1:]]) == 1
    errors = capsys.readouterr().err
    assert f"Name one of those: gputui {words[0]} {first} (or {second})." in errors
    assert "gputui attach" not in errors


WAIT = "import time\nwhile True:\n    time.sleep(0.05)"  # a signal just before a long sleep is handled only after it

STATUSES = {
    "success": ("pass", None, 0),
    "failure": ("raise SystemExit(3)", None, 3),
    "SIGTERM": (WAIT, signal.SIGTERM, -signal.SIGTERM),
    "Ctrl-C": (WAIT, signal.SIGINT, -signal.SIGINT),
}


@pytest.mark.parametrize("name", STATUSES)
def test_gputui_run_exits_with_the_programs_status(python: Python, name: str) -> None:
    code, number, status = STATUSES[name]
    (python.folder / "wait.py").write_text(f"print('ready', flush=True)\n{code}")
    child = python.run([*RUN, python.path, "wait.py"])
    child.expect("ready")
    if number:
        child.process.send_signal(number)
    assert child.ended() == status


def test_the_program_does_not_inherit_the_signals_that_python_ignores(python: Python) -> None:
    def ignored(command: list[str]) -> str:
        return python.run([*command, "sh", "-c", "grep SigIgn /proc/self/status; echo over"]).expect("SigIgn:")

    assert ignored(RUN) == ignored(["env"])


def test_only_two_variables_differ_in_the_programs_environment(python: Python) -> None:
    def environment(command: list[str]) -> set[str]:
        child = python.run([*command, "sh", "-c", "env; echo over"], LC_ALL="", LC_CTYPE="", LANG="")
        lines = []
        while (line := child.expect("")) != "over":
            lines.append(line)
        return {line for line in lines if not line.startswith(("PYTHONPATH=", "GPUTUI_BLACK_BOX=", "_="))}

    assert environment(RUN) == environment(["env"])


KEPT_IN = {
    "by default": ([], {}, "/state/gputui"),
    "in a folder": (["--black-box", "/kept"], {}, "/kept"),
    "in a folder after =": (["--black-box=/kept"], {}, "/kept"),
    "nowhere": (["--no-black-box"], {"GPUTUI_BLACK_BOX": "/elsewhere"}, ""),
    "where the environment says": ([], {"GPUTUI_BLACK_BOX": "/elsewhere"}, "/elsewhere"),
    "in a folder, with the history": (["--memory-history", "--black-box", "/boxes"], {}, "/boxes"),
    "nowhere without a home": ([], {"XDG_STATE_HOME": "", "HOME": ""}, ""),
}


@pytest.mark.parametrize("name", KEPT_IN)
def test_the_program_is_told_where_to_keep_black_boxes(python: Python, name: str) -> None:
    options, variables, folder = KEPT_IN[name]
    variables = {"XDG_STATE_HOME": "/state"} | variables
    child = python.run([*RUN, *options, "sh", "-c", 'echo "kept:$GPUTUI_BLACK_BOX"'], **variables)
    assert child.expect("kept:") == folder


NOT_RUN = {
    "a missing script": (["nothing.py"], 2, "can't open file"),
    "a missing command": (["no-such-command"], 127, "There is neither a file nor a command 'no-such-command'"),
    "a folder": (["."], 126, "it is a folder without a __main__.py"),
    "no program": (["./not a program"], 126, "gputui run python './not a program'."),
    "nothing": ([], 2, "gputui run needs a program"),
    "a missing folder": (["--black-box"], 2, "--black-box needs a folder"),
    "a missing folder after =": (["--black-box=", "train.py"], 2, "--black-box needs a folder"),
    "a history that nothing keeps": (
        ["--memory-history", "--no-black-box", "train.py"],
        2,
        "--memory-history needs a black box",
    ),
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_program_that_cannot_be_run_is_refused_with_a_reason(python: Python, name: str) -> None:
    words, status, sentence = NOT_RUN[name]
    (python.folder / "not a program").touch(mode=0o755)
    child = python.run([*RUN, *words])
    assert child.ended() == status
    assert sentence in child.errors
    assert "Traceback" not in child.errors


SITECUSTOMIZE = {
    "none": None,
    "one": "import sys; sys.of_the_user = __file__",
    "a broken one": "raise ValueError('mine')",
    "one that imports a missing module": "import nothing_of_the_kind",
}
FOUND = """
import sys
print("found", getattr(sys, "of_the_user", ""), sys.modules.get("sitecustomize"), sys.path, flush=True)
"""


@pytest.mark.parametrize("name", SITECUSTOMIZE)
def test_the_users_sitecustomize_runs_as_without_the_probe(python: Python, name: str) -> None:
    code = SITECUSTOMIZE[name]
    folder = python.folder / "site"
    folder.mkdir()
    if code:
        (folder / "sitecustomize.py").write_text(code)

    def outcome(command: list[str]) -> tuple[str, str, int]:
        path = f"{folder}:{python.environment['PYTHONPATH']}"
        child = python.run([*command, python.path, "-c", FOUND], PYTHONPATH=path)
        return child.expect("found"), child.errors, child.ended()

    without_site = [
        RUN[0],
        "-S",
        *RUN[1:],
    ]  # or gputui's own interpreter would run sitecustomize and print its error too
    with_probe, without = outcome(without_site), outcome(["env"])
    assert with_probe == without
    assert (str(folder / "sitecustomize.py") in with_probe[0]) == (name == "one")
    assert ("Error in sitecustomize" in with_probe[1]) == (
        name in ("a broken one", "one that imports a missing module")
    )


INSTALLED_ELSEWHERE = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from gputui.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
IMPORTS = """
import gputui.probe, sys
print("from", gputui.__file__, flush=True)
import gputui.protocol.frames
try:
    import tests.attach
except ImportError:
    print("nothing else", flush=True)
"""


def test_gputui_from_another_environment_makes_only_itself_importable(python: Python) -> None:
    bare = str(
        Path(python.path).resolve()
    )  # a virtual environment's own interpreter may have this repository installed
    child = python.run([sys.executable, "-c", INSTALLED_ELSEWHERE, bare, "-c", IMPORTS], PYTHONPATH="")
    assert child.expect("from") == str(REPOSITORY / "gputui" / "__init__.py")
    child.expect("nothing else")


def test_a_python_with_option_e_runs_without_the_probe(python: Python, script: Path) -> None:
    child = python.run([*RUN, python.path, "-E", "train.py"])
    assert report_of(child) == (child.pid, "False []")
    assert child.ended() == 0


def test_a_program_in_which_the_probe_cannot_even_be_imported_runs_as_without(python: Python) -> None:
    package = python.folder / "broken" / "gputui"
    shutil.copytree(REPOSITORY / "gputui" / "probe", package / "probe", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()
    (package / "probe" / "running.py").write_text("raise RuntimeError('half of an installation')")
    child = python.start(REPORT, PYTHONPATH=str(package / "probe" / "preload"))
    assert report_of(child) == (child.pid, "False []")
    assert (child.ended(), child.errors) == (0, "")
