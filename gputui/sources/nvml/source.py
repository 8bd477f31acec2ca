"""The NVML source: looks at all devices, whatever state the driver is in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gputui.model.machine.device import Device, DeviceLook
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.reading import NOT_READ, Absent, AbsentKind
from gputui.sources.nvml.binding import Nvml
from gputui.sources.nvml.errors import NvmlError, NvmlUnusableError, problem_of
from gputui.sources.nvml.pcie import PcieRates, Rates
from gputui.sources.nvml.session import Session

if TYPE_CHECKING:
    from gputui.sources.nvml.gpm import GpmReadings, Profile
    from gputui.sources.nvml.xids import XidEvents
    from gputui.sources.pages.dcgm import DcgmPage, Entity, Shares

_NOT_ON_PAGE = Absent("not on dcgm-exporter's page", AbsentKind.NOT_SUPPORTED)

_RETRY_S = 2.8
"""After how many seconds NVML is initialised again while there is a problem; a little less than 3."""


class NvmlSource:
    """Reads all devices through NVML.

    Call `read` and `close` from one thread, `watch` from any. While the driver hangs, `read` hangs too.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gpm: GpmReadings | None = None
        self._xids: XidEvents | None = None
        self._page: DcgmPage | None = None
        self._profile_within_s = 0.0
        self._profiles: Mapping[str, Profile] = {}
        self._pcie = PcieRates()
        self._watched: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._retry_at = float("-inf")
        self._failed_look = DeviceLook()

    def watch(self, keys: frozenset[str]) -> None:
        """From now on, read the expensive PCIe and NVLink rates of only the devices with these keys (`Device.key`)."""
        self._watched = keys
        self._pcie.watch(frozenset(key for key in keys if "pcie_tx_bytes_per_s" not in self._profiles.get(key, {})))

    def watch_profiles(self, within_s: float = 0.0, page: DcgmPage | None = None) -> None:
        """From the next look on, read true utilisation, too; `within_s` is how long each look waits for it.

        For a GPU without GPM, `page` is read, by default that of the dcgm-exporter on this node.
        """
        from gputui.sources.nvml.gpm import GpmReadings
        from gputui.sources.pages.dcgm import DcgmPage

        self._gpm, self._page = GpmReadings(clock=self._clock), page or DcgmPage(clock=self._clock)
        self._profile_within_s = within_s

    def watch_faults(self) -> None:
        """From the next look on, also read what only findings need: XIDs, and how many NVLinks are active."""
        from gputui.sources.nvml.xids import XidEvents

        self._xids = XidEvents()

    def read(self) -> DeviceLook:
        """All devices and their processes, or no devices and the problem; no NVML error is raised."""
        now = self._clock()
        if self._session is None and now < self._retry_at:
            return self._failed_look
        try:
            return self._look(now)
        except NvmlUnusableError as problem:
            self._failed_look = DeviceLook(problem=str(problem))
        except NvmlError as error:
            self._failed_look = DeviceLook(problem=str(problem_of(error)))
        self._end()
        self._retry_at = now + _RETRY_S
        return self._failed_look

    def close(self) -> None:
        """End the threads, and shut NVML down."""
        self._pcie.close()
        if self._gpm:
            self._gpm.close()
        self._end()

    def _look(self, now: float) -> DeviceLook:
        if self._session is None:
            self._session = Session(Nvml())
        watched = self._watched
        self._session.counts_links = self._xids is not None
        look = self._with_profiles(self._session, self._session.look(now, watched))
        if self._xids:
            look = look._replace(xids=self._xids.look(self._session.nvml, self._session.handles()))
        if not watched:
            return look
        self._pcie.serve(self._session.nvml, self._session.handles())
        rates = self._pcie.readings()
        return look._replace(devices=tuple(_with_pcie_rates(device, rates, watched) for device in look.devices))

    def _with_profiles(self, session: Session, look: DeviceLook) -> DeviceLook:
        if self._gpm is None:
            return look
        self._gpm.serve(session.nvml, session.to_sample())
        if self._profile_within_s:
            self._gpm.wait(self._profile_within_s)
        self._profiles = self._gpm.readings()
        devices = tuple(_with_profile(device, self._profiles) for device in look.devices)
        if self._page and any(_has_no_gpm(device) for device in devices):
            devices = _with_page(devices, self._page.look(self._profile_within_s))
        return look._replace(devices=devices)

    def _end(self) -> None:
        self._pcie.serve(None, {})
        if self._gpm:
            self._gpm.serve(None, {})
        self._profiles = {}
        if self._session is not None:
            if self._xids:
                self._xids.close(self._session.nvml)
            self._session.close()
            self._session = None


def _with_profile(device: Device, profiles: Mapping[str, Profile]) -> Device:
    readings: dict[str, Any] = {} if device.lost else dict(profiles.get(device.key, {}))
    return device._replace(**readings)


def _has_no_gpm(device: Device) -> bool:
    source = device.profile_source
    return isinstance(source, Absent) and source.kind is AbsentKind.NOT_SUPPORTED


def _with_page(devices: tuple[Device, ...], page: Mapping[Entity, Shares]) -> tuple[Device, ...]:
    """The devices; those without GPM with the true utilisation on dcgm-exporter's page."""
    uuids = {device.index: device.uuid for device in devices if device.mig is None}

    def on_page(device: Device) -> Device:
        place = device.mig
        shares = page.get((uuids.get(place.parent, ""), place.gpu_instance) if place else (device.uuid, None))
        if not shares or not _has_no_gpm(device):
            return device
        readings: dict[str, Any] = {
            **dict.fromkeys(PROFILED, _NOT_ON_PAGE),
            **shares,
            "profile_source": "dcgm-exporter",
        }
        return device._replace(**readings)

    return tuple(map(on_page, devices))


def _with_pcie_rates(device: Device, rates: Mapping[str, Rates], watched: frozenset[str]) -> Device:
    is_known = not isinstance(device.pcie_tx_bytes_per_s, Absent)
    if is_known or device.key not in watched or device.mig is not None or device.lost is not None:
        return device
    tx, rx = rates.get(device.key, (NOT_READ, NOT_READ))
    return device._replace(pcie_tx_bytes_per_s=tx, pcie_rx_bytes_per_s=rx)
