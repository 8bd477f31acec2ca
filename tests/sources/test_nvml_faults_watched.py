"""What only findings need: XIDs by NVML's events, NVLinks of devices that nobody looks at, the recovery action."""

from __future__ import annotations

import pytest

from gputui.model.machine.device import NvLinks, Xid
from gputui.model.reading import NOT_LOOKED_AT
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks
from tests.sources.nvml_errors import REASONS

EVENTS = ("nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2", "nvmlEventSetFree")


@pytest.fixture
def watching(looks: Looks) -> Looks:
    """A source that has looked once, with its devices registered."""
    looks.source.watch_faults()
    looks.look()
    return looks


def numbers(xids: tuple[Xid, ...]) -> list[tuple[str, int]]:
    return [(xid.device, xid.number) for xid in xids]


def test_xids_are_told_with_their_device_once_and_kept(fake_gpus: FakeGpus, watching: Looks) -> None:
    first, second = (device.key for device in watching.look().devices)
    fake_gpus.xid(1, 79)
    fake_gpus.xid(0, 31)
    fake_gpus.xid(0, 31)
    expected = [(first, 31), (first, 31), (second, 79)]
    assert sorted(numbers(watching.look().xids)) == sorted(expected)
    assert sorted(numbers(watching.look().xids)) == sorted(expected)


def test_nobody_is_told_of_what_was_before(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.xid(0, 79)
    looks.source.watch_faults()
    assert looks.look().xids == looks.look().xids == ()


def test_a_gpu_that_reports_thousands_of_errors_does_not_stop_a_look(fake_gpus: FakeGpus, watching: Looks) -> None:
    for number in range(1000):
        fake_gpus.xid(0, number)
    assert len(watching.look().xids) == 8  # as many as the fake driver keeps


@pytest.mark.parametrize("function", EVENTS)
def test_an_error_of_an_event_function_hides_nothing_else(fake_gpus: FakeGpus, function: str) -> None:
    for error in REASONS:
        fake_gpus.clear("faults")
        fake_gpus.fault(function, error=error)
        faulty = Looks()
        faulty.source.watch_faults()
        faulty.look()
        fake_gpus.xid(0, 13)
        look = faulty.look()
        assert [device.lost for device in look.devices] == [None, None], error
        assert look.problem is None, error
        faulty.source.close()


def test_xids_outlive_the_library(fake_gpus: FakeGpus, watching: Looks) -> None:
    fake_gpus.xid(0, 79)
    watching.look()
    fake_gpus.fault("nvml*", error=9)
    watching.look()
    fake_gpus.clear("faults")
    assert [xid.number for xid in watching.look(after_s=5).xids] == [79]
    fake_gpus.xid(1, 48)
    assert [xid.number for xid in watching.look().xids] == [79, 48]


def test_links_are_counted_where_nobody_looks_and_seldom(fake_gpus: FakeGpus, watching: Looks) -> None:
    fake_gpus.clear("calls")
    fake_gpus.set(0, nvlinks_active=17)
    assert [device.nvlinks for device in watching.look().devices] == [NvLinks(18, 18, None, None)] * 2
    assert "nvmlDeviceGetNvLinkState" not in fake_gpus.calls()
    assert watching.look(after_s=30).devices[0].nvlinks == NvLinks(17, 18, None, None)


def test_without_findings_links_are_not_counted(looks: Looks) -> None:
    assert looks.look().devices[0].nvlinks == NOT_LOOKED_AT


@pytest.mark.parametrize(("code", "words"), [(0, "none"), (1, "GPU reset"), (4, "drain and reset")])
def test_the_recovery_action_in_words(fake_gpus: FakeGpus, looks: Looks, code: int, words: str) -> None:
    fake_gpus.set(0, recovery_action=code)
    assert looks.look().devices[0].recovery_action == words
