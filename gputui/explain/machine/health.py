"""Devices that fail or are about to fail: lost, gone, with errors in memory, too hot, or with slow links."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.explain.machine import thresholds
from gputui.explain.machine.scene import Scene, Sign, mean, place
from gputui.explain.machine.xids import XIDS, XidKind
from gputui.model.machine.device import Device
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_duration

LOOK_AT_LOG = "`dmesg | grep -i -e nvrm -e xid` shows what the driver says about it."


def lost(scene: Scene) -> Iterator[Sign]:
    """Devices that do not answer any more."""
    for device in scene.devices:
        if device.lost:
            remedy = device.lost.remedy or "End its programs and reset it, or reboot"
            yield Sign(
                place(device),
                f"Does not answer: {device.lost.reason}",
                (f"{device.name}, bus {device.bus_id or 'not known'}.", LOOK_AT_LOG),
                f"{remedy[:1].upper()}{remedy[1:]}.".replace("..", "."),
                device=device.key,
            )


def gone(scene: Scene) -> Iterator[Sign]:
    """GPUs that the driver listed earlier and no longer lists."""
    if scene.snapshot.devices.problem:
        return
    present = {device.key for device in scene.devices}
    for key, device in scene.known.items():
        if key not in present and device.uuid:
            yield Sign(
                place(device),
                f"Is no longer there: {device.name}",
                (f"It was on bus {device.bus_id or 'not known'}, {device.uuid}.", LOOK_AT_LOG),
                "Unless somebody has taken it away on purpose, move its jobs to another GPU and reboot the machine.",
                device=key,
            )


def silent(scene: Scene) -> Iterator[Sign]:
    """The driver does not answer, or NVML has stopped working."""
    look, age_s = scene.snapshot.devices, scene.snapshot.devices_age_s
    if age_s >= (thresholds.SILENT_S if scene.known else thresholds.STARTS_WITHIN_S):
        yield Sign(
            "driver",
            f"The driver has not answered for {format_duration(age_s)}",
            (LOOK_AT_LOG, "Programs that call it hang, too, and cannot be ended."),
            "If it stays so, reboot the machine.",
            since=scene.snapshot.time - age_s,
        )
    elif look.problem and scene.known:
        yield Sign("driver", "NVML has stopped working", (look.problem,), f"{LOOK_AT_LOG} gputui keeps trying.")


def ecc(scene: Scene) -> Iterator[Sign]:
    """Memory errors that could not be corrected."""
    for device in scene.devices:
        errors = value_of(device.ecc_uncorrected)
        if errors:
            yield Sign(
                place(device),
                f"{errors} memory error{'s' * (errors > 1)} that ECC could not correct",
                ("Counted since the driver was loaded.",),
                "Programs that ran then may have wrong results. Reset the GPU; if the number grows again, have it "
                "examined.",
                device=device.key,
            )


def rows(scene: Scene) -> Iterator[Sign]:
    """Memory rows with errors that wait for a replacement, or could not be replaced."""
    for device in scene.devices:
        remapped = value_of(device.remapped_rows)
        if remapped is None or not (remapped.pending or remapped.failed):
            continue
        counts = f"Replaced so far: {remapped.uncorrectable} after errors that could not be corrected, "
        evidence = (f"{counts}{remapped.correctable} after others.",)
        if remapped.failed:
            title = "Memory rows with errors could not be replaced"
            yield Sign(place(device), title, evidence, "The board should be exchanged.", device=device.key)
        else:
            yield Sign(
                place(device),
                "Memory rows with errors wait to be replaced",
                evidence,
                "Stop the GPU's processes and reset it (nvidia-smi --gpu-reset), or reboot.",
                device=device.key,
            )


RECOVERY = {
    "GPU reset": "Stop the GPU's processes and reset it: nvidia-smi --gpu-reset.",
    "node reboot": "Reboot the machine.",
    "drain P2P": "Stop the programs that use several GPUs; then reset the GPU when its other programs have ended.",
    "drain and reset": "Start nothing new on the GPU, let its programs end, then reset it: nvidia-smi --gpu-reset.",
    "recover IMEX domain": "Restart the IMEX domain (nvidia-imex) on the nodes that share NVLink.",
    "bus reset": "Stop the GPU's processes, and have an administrator reset its PCIe bus.",
    "system reboot": "Reboot the machine.",
}
"""What to do for each of NVML's recovery actions."""


def recovery(scene: Scene) -> Iterator[Sign]:
    """Devices for which the driver itself asks for a reset or a reboot."""
    for device in scene.devices:
        action = value_of(device.recovery_action)
        if action in RECOVERY:
            title = f"The driver asks for a recovery action: {action}"
            evidence = ("nvidia-smi -q shows it as GPU Recovery Action.",)
            yield Sign(place(device), title, evidence, RECOVERY[action], device=device.key)


def slowed(scene: Scene) -> Iterator[Sign]:
    """Devices whose clocks are lowered by heat or the power supply; the power limit lowers them on purpose."""
    for device in scene.devices:
        for series, cause, remedy in _SLOWED:
            minute = scene.minute(device.key, series)
            if minute and mean(minute) >= thresholds.SLOWED_PERCENT:
                title = f"{cause} its clocks {mean(minute):.0f}% of the time"
                evidence = tuple(_temperature_and_clock(device))
                yield Sign(place(device), title, evidence, remedy, device=device.key, about=series)


_SLOWED = (
    (
        "slowed_for_heat_percent",
        "Heat lowers",
        "Look at its fans, for dust and at the air it gets. Its programs are slower, and so are ranks that wait.",
    ),
    (
        "slowed_by_supply_percent",
        "The power supply lowers",
        "Have the machine's power supplies and the board's cables examined: one may have failed or carry too much.",
    ),
)
"""A series of the history, what to say if it is high, and what to do."""


def _temperature_and_clock(device: Device) -> Iterator[str]:
    temperature, slows_at = value_of(device.temperature_c), value_of(device.slowdown_temperature_c)
    if temperature is not None:
        yield f"It is at {temperature} C" + (f", and slows down at {slows_at} C." if slows_at else ".")
    clock, highest = value_of(device.sm_clock_mhz), value_of(device.max_sm_clock_mhz)
    if clock and highest:
        yield f"Its SMs run at {clock} of {highest} MHz."


def slow_pcie(scene: Scene) -> Iterator[Sign]:
    """PCIe links that are narrower or of a lower generation than possible, on a device under load."""
    for device in scene.devices:
        link = value_of(device.pcie)
        if link is None or (link.width >= link.max_width and link.generation >= link.max_generation):
            continue
        busy = scene.minute(device.key, "gpu_utilization_percent")
        if busy and mean(busy) >= thresholds.UNDER_LOAD_PERCENT:
            yield Sign(
                place(device),
                f"PCIe runs at gen {link.generation} x{link.width}, and could at gen {link.max_generation} "
                f"x{link.max_width}",
                (f"The GPU has been {mean(busy):.0f}% busy in the last minute, so it does not save power.",),
                "Copies to and from the host take longer. Seat the board and its riser anew, and look at the slot and "
                "at the BIOS's settings.",
                device=device.key,
                weight=Weight.ADVICE,
            )


def nvlink_down(scene: Scene) -> Iterator[Sign]:
    """NVLinks that are down on a device with others up; a board without a bridge has all of them down."""
    for device in scene.devices:
        links = value_of(device.nvlinks)
        if links and 0 < links.active < links.total:
            yield Sign(
                place(device),
                f"{links.total - links.active} of {links.total} NVLinks are down",
                ("A collective goes at the speed of its slowest member. nvidia-smi nvlink --status shows which.",),
                "Reset all GPUs that it is linked to, together; if a link stays down, have board and bridge examined.",
                device=device.key,
            )


def xids(scene: Scene) -> Iterator[Sign]:
    """Errors that the driver has reported while gputui watched."""
    labels = {device.key: device for device in (*scene.known.values(), *scene.devices)}
    counted: dict[tuple[str, int], list[float]] = {}
    for event in scene.snapshot.devices.xids:
        counted.setdefault((event.device, event.number), []).append(event.time)
    for (key, number), times in counted.items():
        xid = XIDS.get(number, XidKind("an error that gputui does not know", "Look it up in NVIDIA's list of XIDs."))
        device = labels.get(key)
        often = f"{len(times)} times" if len(times) > 1 else "once"
        yield Sign(
            place(device) if device else "GPU",
            f"XID {number}: {xid.meaning}",
            (f"Reported {often} since gputui watches.", LOOK_AT_LOG),
            xid.remedy,
            device=key,
            weight=xid.weight,
            about=str(number),
            since=times[0],
        )
