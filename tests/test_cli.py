"""The command line as a shell sees it: standard output, standard error, and exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputui import __version__, cli
from gputui.cli import BROKEN_PIPE, COMMANDS, main
from tests.conftest import FakeGpus
from tests.hanging import HANGS_S


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GPUTUI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param("--intervall 3", "There is no option --intervall. Did you mean --interval?", id="option"),
        pytest.param("--onc", "There is no option --onc. Did you mean --once?", id="abbreviation"),
        pytest.param("--xyz=1", "There is no option --xyz. See gputui --help.", id="option, no near match"),
        pytest.param("--interval", "--interval needs a value. See gputui --help.", id="no value"),
        pytest.param("--once=3", "--once takes no value. See gputui --help.", id="value"),
        pytest.param("--record x", "There is no option --record. See gputui --help.", id="option, only dashes match"),
        pytest.param(
            "--sort pid",
            "There is no option --sort. It is a setting: sort in the settings file, or GPUTUI_SORT.",
            id="setting",
        ),
        pytest.param("snapshot", "Missing: PID, -o/--output. See gputui snapshot --help.", id="no arguments"),
        pytest.param(
            "snapshot 1 -o /nowhere/x",
            "There is no folder /nowhere. Create it, or name a file elsewhere.",
            id="no folder",
        ),
        pytest.param("snapshot 1 -o /", "/ is a folder. Name a file in it: -o /memory.pickle.", id="folder"),
        pytest.param("doctr", "There is no command 'doctr'. Did you mean doctor?", id="command"),
        pytest.param("--once now", "gputui takes no argument 'now'. See gputui --help.", id="argument"),
        pytest.param("doctor --jsn", "There is no option --jsn. Did you mean --json?", id="option of a command"),
    ],
)
def test_a_usage_error_is_one_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    assert main(arguments.split()) == 2
    assert capsys.readouterr() == ("", f"gputui: {sentence}\n")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ("run /", 126, "/ cannot be run: it is a folder without a __main__.py. Name a file, such as /train.py."),
        ("attach --job 2147483647", 1, "There is no process 2147483647 here. `gputui attach` lists"),
        (
            "replay nothere",
            1,
            "nothere cannot be read: No such file or directory. gputui opens black boxes (`gputui",
        ),
    ],
    ids=["a folder", "no launcher", "no recording"],
)
def test_a_missing_file_or_process_is_a_sentence_with_a_remedy(
    capsys: pytest.CaptureFixture[str], arguments: str, status: int, sentence: str
) -> None:
    assert main(arguments.split()) == status
    assert capsys.readouterr().err.startswith(f"gputui: {sentence}")


def test_a_launcher_without_ranks_is_a_sentence_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as launcher:
        assert main(["attach", "--job", str(launcher.pid)]) == 1
    sentence = f"No process below PID {launcher.pid} has a probe, or PyTorch in it. Start the job with `gputui run"
    assert capsys.readouterr().err.startswith(f"gputui: {sentence}")


@pytest.mark.parametrize("arguments", [["--help"], ["attach", "--help"], ["run", "--help"], ["--version"], ["doctor"]])
def test_every_command_reports_a_full_disk(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gputui", *arguments]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANGS_S, check=False)
    assert (result.returncode, result.stderr[:40]) == (1, "gputui: Standard output cannot be written: "[:40])


def test_an_unknown_command_without_a_near_match_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zzz"]) == 2
    assert ", ".join(command.name for command in COMMANDS) in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_can_be_loaded(command: cli.Command) -> None:
    assert callable(command.load())


def test_the_version_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"gputui {__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([option])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert [command.name for command in COMMANDS if command.help not in text] == []


def test_a_broken_settings_file_stops_the_monitor_but_not_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.toml").write_text("colour = 'blue'\n")
    monkeypatch.setenv("GPUTUI_CONFIG", str(tmp_path / "broken.toml"))
    assert main(["--once"]) == 2
    assert "broken.toml, line 1: there is no setting 'colour'. Did you mean color?" in capsys.readouterr().err
    assert main(["--version"]) == 0


def test_a_pipe_instead_of_a_terminal_is_a_sentence_with_a_remedy() -> None:
    result = run([])
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "gputui: The monitor needs a terminal, and standard input is not one. To print one look, use gputui --once.\n"
    )


def test_a_closed_pipe_prints_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "gputui", "--version"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_reported_in_a_sentence(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "gputui", "--version"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr == "gputui: Standard output cannot be written: No space left on device.\n"


def test_ctrl_c_exits_with_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_settings", interrupted)
    assert main(["--once"]) == 130
    assert capsys.readouterr() == ("", "")


def test_characters_that_cannot_be_encoded_become_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from gputui.output import put; put('Zo\\u00eb \\u2500 \\udcff\\n')"
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert result.stdout == b"Zo? ? ?\n"


def test_once_prints_the_document_and_nothing_else(fake_gpus: FakeGpus) -> None:
    result = run(["--once", "--json"], fake_gpus.environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert [device["name"] for device in json.loads(result.stdout)["devices"]] == ["NVIDIA H100 80GB HBM3"] * 2


def test_a_stream_of_documents_goes_on_without_a_driver_until_its_reader_goes() -> None:
    command = [sys.executable, "-m", "gputui", "--json", "--interval", "0.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "LD_LIBRARY_PATH": "/nowhere"}
    ) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        process.stdout.close()
    assert process.returncode == BROKEN_PIPE
    assert (first["schema"], first["devices"], second["time"] > first["time"]) == ("gputui.once/1", [], True)
    assert "libnvidia-ml.so.1" in first["problems"][0]


def test_once_imports_no_unneeded_module(fake_gpus: FakeGpus) -> None:
    foreign = ("textual", "rich.console", "rich.text", "torch", "json")  # of rich, only the widths of characters
    code = (
        "import sys; from gputui.cli import main; main(['--once']); "
        f"print(*[name for name in {foreign!r} if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=fake_gpus.environment, capture_output=True, text=True, check=True
    )
    assert result.stderr.split() == []


def test_once_without_a_driver_prints_the_host_and_exits_with_1() -> None:
    result = run(["--once"], {**os.environ, "LD_LIBRARY_PATH": "/nowhere"})
    assert result.returncode == 1
    assert "\n CPU " in result.stdout
    assert "libnvidia-ml.so.1" in result.stdout


def run(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run gputui in a new process, on pipes."""
    return subprocess.run(
        [sys.executable, "-m", "gputui", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
