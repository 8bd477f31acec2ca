"""Numbers as people read them: MiB and GiB (powers of 1024), as nvidia-smi and PyTorch print them."""

import time

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4
PIB = 1024**5

_STEPS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def format_bytes(count: float) -> str:
    """Bytes with at most four digits and a unit: 512 B, 20.0 MiB, 79.6 GiB, 1023 MiB."""
    for step, unit in _STEPS:
        if abs(count) >= step:
            return f"{_short(count / step)} {unit}"
    return f"{count:.0f} B"


def format_bytes_signed(count: float) -> str:
    """A difference in bytes: +20.0 MiB, -1.2 GiB."""
    return f"{'+' if count >= 0 else ''}{format_bytes(count)}"


def format_bytes_short(count: float) -> str:
    """Bytes in at most five characters, for narrow columns: 512B, 20.0M, 79.6G, 1023M."""
    text, unit = format_bytes(count).split(" ")
    return text + unit[0]


def format_rate(bytes_per_s: float) -> str:
    """Bytes per second: 1.4 GiB/s."""
    return f"{format_bytes(bytes_per_s)}/s"


def format_duration(seconds: float) -> str:
    """A duration in its two largest units: 12s, 3:07, 5h02m, 12d04h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def format_clock(epoch_s: float) -> str:
    """A moment as the local time of day: 14:03:21."""
    return time.strftime("%H:%M:%S", time.localtime(epoch_s))


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"
