"""The host in two lines: CPU, load, memory, swap, /dev/shm, disk and network."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.model.machine.host import Host, HostMemory, Space
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.appearance import Appearance, level_role
from gputui.ui.drawing.line import Line, Piece, join, width_of
from gputui.ui.drawing.meters import meter, sparkline
from gputui.units import format_bytes_short

LABEL = "dim"


def draw_host(host: Host, width: int, appearance: Appearance) -> tuple[Line, Line]:
    """Two lines of `width` cells: load and rates, then memory; parts that do not fit are left out."""
    meter_width = 0 if width < 100 else 10 if width < 140 else 20
    first = (
        _cpu(host, meter_width, appearance),
        _processor_limit(host),
        _load(host),
        _rates(host, appearance),
        _cores(host, width, appearance),
    )
    second = (
        _memory(host.memory, meter_width, appearance),
        _memory_limit(host, appearance),
        _cache(host.memory),
        _space("swap", host.swap, appearance),
        _space("/dev/shm", host.shm, appearance),
        _uptime(host),
    )
    return _fitting(first, width), _fitting(second, width)


def _fitting(parts: Iterable[tuple[Piece, ...]], width: int) -> Line:
    line: tuple[Piece, ...] = ((" ", "plain"),)
    for part in parts:
        continues = bool(part) and part[0][0].startswith(" ")
        gap: tuple[Piece, ...] = (("   ", "plain"),) if len(line) > 1 and not continues else ()
        if part and width_of((*line, *gap, *part)) <= width:
            line = (*line, *gap, *part)
    return join(line)


def _cpu(host: Host, meter_width: int, appearance: Appearance) -> tuple[Piece, ...]:
    if isinstance(host.cpu_percent, Absent):
        return (("CPU ", LABEL), (f"{appearance.absent:>4}", "dim"))
    role = level_role(host.cpu_percent, *appearance.cpu_percent)
    bar = (*meter(host.cpu_percent / 100, meter_width, role, appearance.glyphs), (" ", "plain")) if meter_width else ()
    return (("CPU ", LABEL), *bar, (f"{host.cpu_percent:3.0f}%", role))


def _processor_limit(host: Host) -> tuple[Piece, ...]:
    return (("limit ", LABEL), (f"{host.processor_limit:g} CPUs", "plain")) if host.processor_limit else ()


def _memory_limit(host: Host, appearance: Appearance) -> tuple[Piece, ...]:
    """The limit of this container or job: the kernel ends processes there, however much memory the host has."""
    limit = host.memory_limit
    if limit is None or not limit.total_bytes:
        return ()
    percent = 100 * limit.used_bytes / limit.total_bytes
    used, total = format_bytes_short(limit.used_bytes), format_bytes_short(limit.total_bytes)
    role = level_role(percent, *appearance.memory_percent)
    return (("limit ", LABEL), (f"{percent:.0f}% {used}", role), (f"/{total}", "dim"))


def _cores(host: Host, width: int, appearance: Appearance) -> tuple[Piece, ...]:
    """One cell for each core, or for as many of the busiest cores as there is room for."""
    if isinstance(host.core_percents, Absent):
        return ()
    room = max(8, width // 6)
    percents = host.core_percents
    label = f"{len(percents)} cores "
    if len(percents) > room:
        percents = tuple(sorted(percents, reverse=True)[:room])
        label = f"busiest {room} of {len(host.core_percents)} cores "
    return ((label, LABEL), (sparkline([percent / 100 for percent in percents], appearance.glyphs), "good"))


def _load(host: Host) -> tuple[Piece, ...]:
    if isinstance(host.load, Absent):
        return ()
    return (("load ", LABEL), (" ".join(f"{value:.1f}" for value in host.load), "plain"))


def _rates(host: Host, appearance: Appearance) -> tuple[Piece, ...]:
    pairs = (
        ("disk ", host.disk_read_bytes_per_s, host.disk_write_bytes_per_s),
        ("net ", host.network_receive_bytes_per_s, host.network_send_bytes_per_s),
    )
    pieces: list[Piece] = []
    for label, first, second in pairs:
        texts = [
            appearance.absent if isinstance(rate, Absent) else format_bytes_short(rate) for rate in (first, second)
        ]
        pieces += [("   " if pieces else "", "plain"), (label, LABEL), (f"{texts[0]:>5} in {texts[1]:>5} out", "plain")]
    return tuple(pieces)


def _memory(memory: Reading[HostMemory], meter_width: int, appearance: Appearance) -> tuple[Piece, ...]:
    if isinstance(memory, Absent):
        return (("RAM ", LABEL), (appearance.absent, "dim"))
    fraction = memory.used_bytes / memory.total_bytes
    role = level_role(100 * fraction, *appearance.memory_percent)
    bar = (*meter(fraction, meter_width, role, appearance.glyphs), (" ", "plain")) if meter_width else ()
    used, total = map(format_bytes_short, (memory.used_bytes, memory.total_bytes))
    return (("RAM ", LABEL), *bar, (f"{100 * fraction:3.0f}% {used}", role), (f"/{total}", "dim"))


def _cache(memory: Reading[HostMemory]) -> tuple[Piece, ...]:
    """The page cache, which does not count as used, and shared memory; the piece begins with its own gap."""
    if isinstance(memory, Absent):
        return ()
    cache, shared = map(format_bytes_short, (memory.cache_bytes, memory.shared_bytes))
    return ((f" {cache} cache {shared} shared", "dim"),)


def _space(name: str, space: Reading[Space], appearance: Appearance) -> tuple[Piece, ...]:
    if isinstance(space, Absent) or not space.total_bytes:
        return ()
    role = level_role(100 * space.used_bytes / space.total_bytes, *appearance.memory_percent)
    used, total = format_bytes_short(space.used_bytes), format_bytes_short(space.total_bytes)
    return ((f"{name} ", LABEL), (used, role), (f"/{total}", "dim"))


def _uptime(host: Host) -> tuple[Piece, ...]:
    if isinstance(host.uptime_s, Absent):
        return ()
    days, hours = divmod(int(host.uptime_s) // 3600, 24)
    return (("up ", LABEL), (f"{days}d {hours}h" if days else f"{hours}h", "plain"))
