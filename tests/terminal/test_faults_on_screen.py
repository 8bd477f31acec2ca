"""NVML errors as the user sees them: the message, the remedy, and the recovery."""

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


def test_without_a_driver_it_shows_the_remedy_and_the_host(live: Live, fake_gpus: FakeGpus) -> None:
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
def test_a_driver_error_is_shown_until_the_driver_works(
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


def test_a_running_monitor_survives_a_driver_upgrade(live: Live, fake_gpus: FakeGpus) -> None:
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


def test_a_hanging_driver_does_not_block_the_monitor(live: Live, fake_gpus: FakeGpus) -> None:
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


def test_quitting_does_not_wait_for_a_hanging_driver(live: Live, fake_gpus: FakeGpus) -> None:
    """Each call takes an hour, so a monitor that waited for one would exceed the test's time limit."""
    session = live()
    session.wait_for("H100")
    fake_gpus.fault("nvml*", delay_us=3_600_000_000)
    session.wait_for("STALE")
    quit_well(session)


def test_a_driver_that_hangs_from_the_start_does_not_leave_the_screen_empty(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.fault("nvml*", delay_us=3_600_000_000)
    session = live()
    session.wait_for("The driver has not answered for")
    session.wait_for("RAM")
    quit_well(session)


@pytest.mark.parametrize("gpus", [0, 1, 16])
def test_machines_with_0_1_and_16_gpus_are_shown(live: Live, fake_gpus: FakeGpus, gpus: int) -> None:
    fake_gpus.up(gpus)
    session = live(size=(120, 40))
    session.wait_for("Help")
    words = "NVML works but reports no devices." if gpus == 0 else f"{gpus - 1} H100"
    session.wait_for(words)
    quit_well(session)


def test_each_mig_instance_has_its_own_line(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.up(2, mig=3)
    session = live(size=(120, 40))
    session.wait_for("1.3 MIG 1g.10gb")
    quit_well(session)


def test_a_gpu_that_shares_host_memory_shows_no_byte_count(live: Live, fake_gpus: FakeGpus) -> None:
    fake_gpus.fault("nvmlDeviceGetMemoryInfo*", error=3)
    session = live(size=(120, 40))
    session.wait_for("H100")
    session.wait_for("host")
    assert not [line for line in session.text.splitlines() if "H100" in line and "0B/" in line]
    quit_well(session)
