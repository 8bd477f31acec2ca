"""NVML's faults as a person sees them: the sentence, the remedy, and the way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import FakeGpus
from tests.terminal.conftest import GPUTUI, Open
from tests.terminal.pty_session import PtySession

LIVE = f"exec {GPUTUI} --interval 0.2"

Live = Callable[..., PtySession]


@pytest.fixture
def live(terminal: Open, fake_gpus: FakeGpus) -> Live:
    """Opens the monitor on the fake GPUs."""
    variables = fake_gpus.environment_of(fake_gpus.library_folder)
    return lambda **options: terminal(LIVE, **{**variables, **options})


def quit_well(session: PtySession) -> None:
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_without_a_driver_it_says_so_and_shows_the_host(live: Live, fake_gpus: FakeGpus) -> None:
    session = live(LD_LIBRARY_PATH="/nowhere")
    session.wait_for("libnvidia-ml.so.1 was not found. Install the NVIDIA")
    session.wait_for("docker run --gpus all")
    session.wait_for("RAM")
    session.send("D")
    session.wait_for("DEMONSTRATION")
    quit_well(session)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (9, ("The NVIDIA kernel driver is not loaded.", "sudo modprobe nvidia")),
        (18, ("have different versions", "Reboot")),
        (4, ("No permission to talk to the NVIDIA driver.", "/dev/nvidiactl")),
        (999, ("failed with an unknown error", "In a container, restart it")),
    ],
    ids=["driver not loaded", "version mismatch", "no permission", "unknown error"],
)
def test_a_driver_that_does_not_work_is_a_sentence_until_it_works(
    live: Live, fake_gpus: FakeGpus, error: int, words: tuple[str, ...]
) -> None:
    fake_gpus.fault("nvmlInit*", error=error)
    session = live(size=(120, 40))
    for part in words:
        session.wait(lambda part=part: part in session.words, part)
    session.wait_for("RAM")
    fake_gpus.clear("faults")
    session.wait_for("H100")
    session.wait_without(words[0])
    quit_well(session)


def test_a_monitor_left_open_survives_a_driver_upgrade(live: Live, fake_gpus: FakeGpus) -> None:
    session = live()
    session.wait_for("H100")
    fake_gpus.fault("nvml*", error=18)
    session.wait(lambda: "have different versions, as after a driver upgrade" in session.words)
    fake_gpus.clear("faults")
    session.wait_for("H100")
    session.wait_without("different versions")
    quit_well(session)


@pytest.mark.parametrize("moment", ["at the start", "later"])
def test_a_lost_gpu_keeps_its_line_and_comes_back(live: Live, fake_gpus: FakeGpus, moment: str) -> None:
    if moment == "at the start":
        fake_gpus.fault("nvmlDeviceGet*", device=1, error=15)
    session = live(size=(120, 40))
    session.wait_for("H100")
    if moment == "later":
        fake_gpus.fault("nvmlDeviceGet*", device=1, error=15)
    session.wait_for("GPU is lost")
    assert any(line.lstrip().startswith("0 H100") for line in session.screen.display)
    fake_gpus.clear("faults")
    session.wait_without("GPU is lost")
    session.wait(lambda: any(line.lstrip().startswith("1 H100") for line in session.screen.display))
    quit_well(session)


def test_a_driver_that_hangs_does_not_hang_the_monitor(live: Live, fake_gpus: FakeGpus) -> None:
    session = live(size=(120, 40))
    session.wait_for("H100")
    fake_gpus.fault("nvml*", delay_us=5_000_000)
    session.wait_for("STALE")
    session.wait_for("The driver has not answered for")
    session.send("?")
    session.wait_for("app.help")
    session.send("\x1b")
    session.wait_for("STALE")
    fake_gpus.clear("faults")
    session.wait_without("STALE")
    quit_well(session)


def test_quitting_does_not_wait_for_a_driver_that_hangs(live: Live, fake_gpus: FakeGpus) -> None:
    """An hour a call: a monitor that waited for it would not end within the limit of the test."""
    session = live()
    session.wait_for("H100")
    fake_gpus.fault("nvml*", delay_us=3_600_000_000)
    session.wait_for("STALE")
    quit_well(session)


def test_a_driver_that_hangs_from_the_start_does_not_keep_the_screen_empty(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.fault("nvml*", delay_us=3_600_000_000)
    session = live()
    session.wait_for("The driver has not answered for")
    session.wait_for("RAM")
    quit_well(session)


@pytest.mark.parametrize("gpus", [0, 1, 16])
def test_any_number_of_gpus(live: Live, fake_gpus: FakeGpus, gpus: int) -> None:
    fake_gpus.up(gpus)
    session = live(size=(120, 40))
    session.wait_for("Help")
    words = "NVML works but reports no devices." if gpus == 0 else f"{gpus - 1} H100"
    session.wait_for(words)
    quit_well(session)


def test_mig_instances_are_lines_of_their_own(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.up(2, mig=3)
    session = live(size=(120, 40))
    session.wait_for("1.3 MIG 1g.10gb")
    quit_well(session)


def test_memory_that_is_the_hosts_is_given_no_number(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.fault("nvmlDeviceGetMemoryInfo*", error=3)
    session = live(size=(120, 40))
    session.wait_for("H100")
    session.wait_for("host")
    assert not [line for line in session.text.splitlines() if "H100" in line and "0B/" in line]
    quit_well(session)
