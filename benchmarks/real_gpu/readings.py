"""NVML's readings as gputui has them, against those of `nvidia-smi -q -x`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from xml.etree.ElementTree import Element, fromstring

from benchmarks.real_gpu.place import Place, Running
from benchmarks.real_gpu.result import Result, Size
from benchmarks.real_gpu.smi_rows import ROWS, Row, Value, mebibytes
from gputui.model.machine.device import Device, DeviceLook
from gputui.model.machine.device_readings import READINGS
from gputui.model.reading import Absent, AbsentKind
from gputui.sources.nvml.source import NvmlSource
from gputui.units import MIB

SMI_WITHIN_S = 60.0
IDENTITIES = frozenset({"uuid", "bus_id", "serial"})
"""Only whether they are equal is said."""
NONE = "no value"
LATER = (AbsentKind.NOT_READ_YET, AbsentKind.ON_REQUEST)


def readings(place: Place, _size: Size, _running: Running) -> Result:
    """Every reading that both have, before and after nvidia-smi has looked."""
    result = Result()
    before = _look()
    smi = shutil.which("nvidia-smi")
    if before.problem is None and smi and not place.is_fake:
        text = subprocess.run([smi, "-q", "-x"], check=True, capture_output=True, timeout=SMI_WITHIN_S).stdout
        compare(result, [before, _look()], fromstring(text))
    else:
        why = "knows no fake GPUs" if place.is_fake else "is not there"
        result.left_out.append(before.problem or f"nvidia-smi {why}: no reading was compared.")
    for device in before.devices:
        absent = {row.field: getattr(device, row.field) for row in READINGS}
        result.figures[f"without a value, device {device.index}"] = {
            name: reading.reason
            for name, reading in absent.items()
            if isinstance(reading, Absent) and reading.kind not in LATER
        }
    return result


def _look() -> DeviceLook:
    source = NvmlSource()
    try:
        return source.read()
    finally:
        source.close()


def compare(result: Result, looks: Sequence[DeviceLook], smi: Element) -> None:
    """Note what differs between the looks and the document of nvidia-smi, which was made between them."""
    gpus = {uuid: gpu for gpu in smi.findall("gpu") if (uuid := gpu.findtext("uuid"))}
    result.expect("driver", looks[-1].driver.version, smi.findtext("driver_version"))
    result.expect("CUDA version", looks[-1].driver.cuda_version, smi.findtext("cuda_version"))
    compared: set[str] = set()
    for number, device in enumerate(looks[-1].devices):
        if device.mig is None:
            gpu = gpus.get(device.uuid)
            result.expect(f"GPU {device.index}", "listed", "unknown to nvidia-smi", holds=gpu is not None)
            if gpu is not None:
                compared |= _compare_device(result, [look.devices[number] for look in looks], gpu)
                _compare_processes(result, device, looks[-1], gpu)
    result.figures["compared"] = len(compared)
    not_there = {row.field for row in ROWS} - compared
    result.figures["not in this nvidia-smi"] = sorted(not_there)


def _compare_device(result: Result, devices: Sequence[Device], gpu: Element) -> set[str]:
    compared = set()
    for row in ROWS:
        try:
            theirs = row.of(gpu)
        except KeyError:
            continue
        compared.add(row.field)
        ours = [value_at(device, row.field) for device in devices]
        if not _agree(row, ours, theirs):
            is_secret = row.field in IDENTITIES
            shown = (
                ("another", "this") if is_secret else (_words(theirs), " to ".join(dict.fromkeys(map(_words, ours))))
            )
            result.expect(f"{row.field} of GPU {devices[0].index}, nvidia-smi's against gputui's", *shown, holds=False)
    return compared


def value_at(device: Device, path: str) -> Value | None:
    """The value of a field, or of its part; None where it is absent."""
    value: object = device
    for part in path.split("."):
        value = part in value if part and not hasattr(value, part) else getattr(value, part)  # type: ignore[operator]
        if value is None or isinstance(value, Absent):
            return None
    return value  # type: ignore[return-value]


def _agree(row: Row, ours: Sequence[Value | None], theirs: Value | None) -> bool:
    known = [value for value in ours if value is not None]
    if theirs is None or not known:
        return theirs is None and not known
    if isinstance(theirs, str):
        return theirs.lower() in [str(value).lower() for value in known]
    numbers = [float(value) for value in known]
    return min(numbers) - row.slack <= float(theirs) <= max(numbers) + row.slack


def _words(value: Value | None) -> str:
    return NONE if value is None else f"{value:.10g}" if type(value) is float else str(value)


def _compare_processes(result: Result, device: Device, look: DeviceLook, gpu: Element) -> None:
    """What each process holds, for those that both list; a process that just ends is in one of them alone."""
    theirs = {info.findtext("pid"): info.findtext("used_memory") or "" for info in gpu.iter("process_info")}
    uses = [use for use in look.uses if use.device == device.key]
    both = [use for use in uses if str(use.pid) in theirs]
    result.figures[f"processes of GPU {device.index}: gputui, nvidia-smi, both"] = [len(uses), len(theirs), len(both)]
    for use in both:
        text = theirs[str(use.pid)]
        held = None if isinstance(use.used_bytes, Absent) else use.used_bytes
        shown = mebibytes(text) if text[:1].isdigit() else None
        is_near = held is not None and shown is not None and abs(held - shown) <= 64 * MIB
        holds = is_near or (held is None and shown is None)
        result.expect(f"what a process holds on GPU {device.index}", _words(shown), _words(held), holds=holds)
