"""The doctor: its checks, their findings, and the data it never prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gputui.doctor import Diagnosis, Grade, examine, report
from gputui.doctor.checks import check_probe_folder
from gputui.doctor.here import Here, Terminal, impersonal
from gputui.model.machine.device import Device, DeviceLook, DeviceUse, Driver, Lost
from gputui.model.machine.process import ProcessLook
from gputui.model.reading import Absent
from tests.conftest import FakeGpus
from tests.hanging import wait_until

UUID = "GPU-d82c07cd-629f-c209-e3e7-0a5d6baa9455"
DEVICE = Device(0, UUID, "NVIDIA H100", "00000000:0F:00.0")
FINE = Here(
    {"TERM": "xterm-256color", "GPUTUI_CONFIG": "/dev/null"},
    Terminal((120, 40), "utf-8"),
    DeviceLook(Driver("580.159.04", "13.0"), (DEVICE,), (DeviceUse(UUID, 1, "C", 1),)),
    ProcessLook(),
)


def findings(here: Here, check: str) -> list[Diagnosis]:
    return [finding for finding in examine(here) if finding.check == check]


def the(here: Here, check: str) -> Diagnosis:
    (finding,) = findings(here, check)
    return finding


def on(columns: int, lines: int, encoding: str = "utf-8", **environment: str) -> Here:
    """A healthy machine with another terminal."""
    return replace(FINE, terminal=Terminal((columns, lines), encoding), environment={**FINE.environment, **environment})


def test_a_healthy_machine_has_no_broken_finding() -> None:
    assert [finding for finding in examine(FINE) if finding.grade is Grade.BROKEN] == []


@pytest.mark.parametrize(
    ("here", "check", "grade", "text"),
    [
        pytest.param(on(120, 40), "terminal", Grade.FINE, "120x40", id="a good size"),
        pytest.param(on(79, 40), "terminal", Grade.LIMITED, "79x40", id="narrow"),
        pytest.param(on(0, 0), "terminal", Grade.LIMITED, "size", id="no size"),
        pytest.param(on(120, 40, TERM="dumb"), "terminal", Grade.BROKEN, "'dumb'", id="dumb"),
        pytest.param(replace(FINE, terminal=Terminal(None, "")), "terminal", Grade.FINE, "not a terminal", id="a pipe"),
        pytest.param(on(120, 40), "colors", Grade.FINE, "256", id="256 colours"),
        pytest.param(on(120, 40, COLORTERM="truecolor"), "colors", Grade.FINE, "truecolor", id="truecolor"),
        pytest.param(on(120, 40, TERM="linux"), "colors", Grade.LIMITED, "16", id="16 colours"),
        pytest.param(on(120, 40, NO_COLOR="1"), "colors", Grade.FINE, "NO_COLOR", id="no colours"),
        pytest.param(on(120, 40, "ascii"), "characters", Grade.LIMITED, "ascii", id="not UTF-8"),
        pytest.param(on(120, 40, GPUTUI_THEME="x"), "settings", Grade.BROKEN, "GPUTUI_THEME", id="a wrong setting"),
    ],
)
def test_the_terminal_and_the_settings_are_checked(here: Here, check: str, grade: Grade, text: str) -> None:
    finding = the(here, check)
    assert finding.grade is grade
    assert text in finding.text


def test_an_unknown_gputui_variable_is_reported() -> None:
    known, unknown = findings(on(120, 40, GPUTUI_TEHME="nord"), "settings")
    assert known.grade is Grade.FINE
    assert (unknown.text, unknown.remedy) == (
        "GPUTUI_TEHME is set, but gputui does not know it.",
        "Did you mean GPUTUI_THEME?",
    )


def test_a_driver_problem_is_broken_with_its_sentence() -> None:
    here = replace(FINE, devices=DeviceLook(problem="No driver. Install one."))
    assert the(here, "driver") == Diagnosis(
        "driver",
        Grade.BROKEN,
        "No driver. Install one.",
        "Until then, gputui shows the host alone; gputui --demo shows a simulated machine.",
    )
    assert findings(here, "devices") == []


def test_lost_and_faulty_devices_are_named_by_index() -> None:
    devices = (DEVICE, DEVICE._replace(index=1, lost=Lost("GPU is lost")), DEVICE._replace(index=2, problems=("rows",)))
    here = replace(FINE, devices=FINE.devices._replace(devices=devices))
    assert [(finding.grade, finding.text) for finding in findings(here, "devices")] == [
        (Grade.FINE, "2 of 3 answer"),
        (Grade.BROKEN, "GPU 1: GPU is lost."),
        (Grade.LIMITED, "GPU 2: rows"),
    ]


def test_a_driver_without_a_device_is_broken() -> None:
    assert the(replace(FINE, devices=DeviceLook(Driver("580", "13.0"))), "devices").grade is Grade.BROKEN


def test_unknown_process_memory_is_reported_once() -> None:
    uses = (DeviceUse(UUID, 1, "C", Absent("not reported")), DeviceUse(UUID, 2, "C", Absent("not reported")))
    here = replace(FINE, devices=FINE.devices._replace(uses=uses))
    assert the(here, "processes").text == "The memory of some processes is unknown: not reported"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("/home/ana/.config/x and /home/anabel", "~/.config/x and /home/anabel", id="home"),
        pytest.param("owned by ana: no, banana", "owned by (user): no, banana", id="user"),
        pytest.param(f"{UUID} is lost", "GPU-(UUID) is lost", id="device"),
        pytest.param(f"on {os.uname().nodename}.", "on (host).", id="host"),
        pytest.param(f"{os.uname().nodename}tui", f"{os.uname().nodename}tui", id="a word that begins like the host"),
    ],
)
def test_personal_data_is_removed_from_texts(text: str, shown: str) -> None:
    assert impersonal(text, {"HOME": "/home/ana", "USER": "ana"}) == shown


COMING_AND_GOING = """import os, sys
os.chdir(sys.argv[1])
while True:
    for number in range(100):
        os.close(os.open(f"{number}", os.O_CREAT))
    for name in os.listdir():
        os.unlink(name)
"""


def test_probes_that_end_while_they_are_counted_are_left_out() -> None:
    with TemporaryDirectory(dir="/tmp") as runtime:  # a long path is no place for sockets
        folder = Path(runtime, "gputui")
        folder.mkdir(mode=0o700)
        here = replace(FINE, environment={"XDG_RUNTIME_DIR": runtime})
        with subprocess.Popen([sys.executable, "-S", "-c", COMING_AND_GOING, folder]) as programs:
            try:
                wait_until(lambda: any(folder.iterdir()))
                counted = {finding.text for _ in range(3000) for finding in check_probe_folder(here)}
            finally:
                programs.kill()
    assert counted == {"$XDG_RUNTIME_DIR/gputui, 0 probes"}


def test_the_report_has_a_line_per_finding_and_per_remedy() -> None:
    text = report(
        [Diagnosis("driver", Grade.BROKEN, "No driver.", "Install it."), Diagnosis("python", Grade.FINE, "3.12")],
        as_json=False,
    )
    assert text.splitlines() == [
        "broken  driver          No driver.",
        "                        -> Install it.",
        "ok      python          3.12",
    ]


def doctor(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputui", "doctor", *arguments],
        env={**environment, "GPUTUI_CONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_doctor_exits_with_0_if_devices_answer(fake_gpus: FakeGpus) -> None:
    result = doctor(fake_gpus.environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "2 of 2 answer" in result.stdout


def test_the_doctor_prints_no_personal_data(fake_gpus: FakeGpus, tmp_path: Path) -> None:
    fake_gpus.process(os.getpid(), {0: 100})
    text = doctor({**fake_gpus.environment, "HOME": str(tmp_path), "USER": "ana"}).stdout
    secrets = (str(tmp_path), os.uname().nodename, "GPU-d82c07cd", "pytest")
    assert [secret for secret in secrets if secret in text] == []


def test_the_doctor_exits_with_1_without_a_driver_also_as_json() -> None:
    result = doctor({**os.environ, "LD_LIBRARY_PATH": "/nowhere"}, "--json")
    assert result.returncode == 1
    assert '"check": "driver", "grade": "broken"' in result.stdout
