"""PCIe and NVLink rates are expensive: they are read only for watched devices, and no look waits for them."""

from __future__ import annotations

import threading

import pytest

from gputui.model.machine.device import NvLinks
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, AbsentKind
from gputui.sources.nvml.binding import Nvml
from gputui.sources.nvml.pcie import PcieRates
from tests.conftest import FakeGpus
from tests.hanging import wait_until
from tests.sources.conftest import Looks
from tests.sources.waiting import look_until

PCIE, NOT_SUPPORTED, GPU_IS_LOST = "nvmlDeviceGetPcieThroughput", 3, 15


def is_at_rest(rates: PcieRates) -> bool:
    """Whether the thread waits; while nothing is watched, until something is, and not for the next interval."""
    with rates._changed:
        return bool(rates._changed._waiters)


def test_pcie_rates_of_watched_devices_are_in_bytes_per_second(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(1, pcie_tx=1000, pcie_rx=2000)
    _, key = (device.key for device in looks.look().devices)
    looks.source.watch(frozenset({key}))
    assert looks.look().devices[1].pcie_tx_bytes_per_s == NOT_READ
    first, second = look_until(looks, lambda look: look.devices[1].pcie_tx_bytes_per_s != NOT_READ).devices
    assert (second.pcie_tx_bytes_per_s, second.pcie_rx_bytes_per_s) == (1_024_000, 2_048_000)
    assert first.pcie_tx_bytes_per_s == NOT_LOOKED_AT


def test_pcie_rates_of_unwatched_devices_are_not_read(fake_gpus: FakeGpus) -> None:
    nvml = Nvml()
    rates = PcieRates(interval_s=0.001)
    rates.serve(nvml, {"gpu": nvml.call("nvmlDeviceGetHandleByIndex", 0)})
    assert PCIE not in fake_gpus.calls()
    rates.watch(frozenset({"gpu"}))
    wait_until(lambda: fake_gpus.calls().get(PCIE, 0) > 20)
    assert rates.readings() == {"gpu": (120 * 1024, 80 * 1024)}
    rates.watch(frozenset())
    assert rates.readings() == {}
    wait_until(lambda: is_at_rest(rates))  # after the call in progress has ended
    fake_gpus.clear("calls")
    rates.serve(nvml, {"gpu": nvml.call("nvmlDeviceGetHandleByIndex", 0)})  # wakes the thread
    wait_until(lambda: is_at_rest(rates))
    assert PCIE not in fake_gpus.calls()
    rates.watch(frozenset({"gpu"}))
    wait_until(lambda: PCIE in fake_gpus.calls())
    rates.close()
    nvml.close()


def test_an_unused_source_starts_no_thread(looks: Looks) -> None:
    looks.look()
    assert "gputui-pcie" not in {thread.name for thread in threading.enumerate()}


def test_a_look_does_not_wait_for_pcie(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault(PCIE, delay_us=100_000)
    looks.source.watch(frozenset(device.key for device in looks.look().devices))
    looks.look()
    wait_until(lambda: PCIE in fake_gpus.calls())

    def three_looks_take_less_than_a_call() -> bool:
        before = fake_gpus.calls()[PCIE]
        for _ in range(3):
            looks.look()
        return fake_gpus.calls()[PCIE] == before

    wait_until(three_looks_take_less_than_a_call)


def test_unsupported_pcie_counters_are_requested_once(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault(PCIE, error=NOT_SUPPORTED)
    (key, _) = (device.key for device in looks.look().devices)
    looks.source.watch(frozenset({key}))
    device = look_until(looks, lambda look: look.devices[0].pcie_rx_bytes_per_s != NOT_READ).devices[0]
    assert device.pcie_rx_bytes_per_s == Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)
    looks.look()
    assert fake_gpus.calls()[PCIE] == 2


def test_a_lost_device_has_no_rates(fake_gpus: FakeGpus, looks: Looks) -> None:
    (key, _) = (device.key for device in looks.look().devices)
    looks.source.watch(frozenset({key}))
    look_until(looks, lambda look: look.devices[0].pcie_tx_bytes_per_s != NOT_READ)
    fake_gpus.fault("nvmlDeviceGet*", device=0, error=GPU_IS_LOST)
    lost = looks.look().devices[0]
    assert lost.pcie_tx_bytes_per_s == lost.nvlinks == Absent("GPU is lost")


def test_nvlink_rates_are_the_bytes_between_two_looks_per_second(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(0, nvlinks=18, nvlinks_active=17, nvlink_tx=1_000_000, nvlink_rx=2_000_000)
    (key, _) = (device.key for device in looks.look().devices)
    looks.source.watch(frozenset({key}))
    assert looks.look().devices[0].nvlinks == NvLinks(17, 18, None, None)
    fake_gpus.set(0, nvlink_tx=1_002_000, nvlink_rx=2_004_000)
    first, second = looks.look(after_s=2).devices
    assert first.nvlinks == NvLinks(17, 18, 1_024_000.0, 2_048_000.0)
    assert second.nvlinks == NOT_LOOKED_AT


def test_nvlink_counters_that_were_reset_give_no_rate(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(0, nvlink_tx=5000, nvlink_rx=5000)
    (key, _) = (device.key for device in looks.look().devices)
    looks.source.watch(frozenset({key}))
    looks.look()
    fake_gpus.set(0, nvlink_tx=10, nvlink_rx=10)
    assert looks.look().devices[0].nvlinks == NvLinks(18, 18, None, None)


def test_nvlink_rates_restart_when_a_device_is_watched_again(fake_gpus: FakeGpus, looks: Looks) -> None:
    watched = frozenset(device.key for device in looks.look().devices)
    rates = []
    for keys in (watched, watched, frozenset(), watched):
        looks.source.watch(keys)
        rates.append(getattr(looks.look().devices[0].nvlinks, "tx_bytes_per_s", "not watched"))
    assert rates == [None, 0.0, "not watched", None]


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "not watched"])
def test_a_watched_device_without_nvlink_has_a_reason(fake_gpus: FakeGpus, looks: Looks, *, is_watched: bool) -> None:
    fake_gpus.up(1)
    (device,) = looks.look().devices
    looks.source.watch(frozenset({device.key} if is_watched else ()))
    expected = Absent("this device has no NVLinks") if is_watched else NOT_LOOKED_AT
    assert looks.look().devices[0].nvlinks == expected
