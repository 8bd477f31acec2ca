"""What the doctor examines, and what it removes from its output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.process import ProcessLook


@dataclass(frozen=True, slots=True)
class Terminal:
    """Standard output; `size` is columns and lines, None where it is not a terminal."""

    size: tuple[int, int] | None
    encoding: str


@dataclass(frozen=True, slots=True)
class Here:
    """One look at devices and processes, the environment and the terminal."""

    environment: Mapping[str, str]
    terminal: Terminal
    devices: DeviceLook
    processes: ProcessLook


def look_here() -> Here:
    """Read devices and processes once."""
    from gputui.once.look import read_in_time
    from gputui.sources.nvml import NvmlSource
    from gputui.sources.processes import ProcessSource

    devices = read_in_time(NvmlSource())
    return Here(os.environ, _terminal(), devices, ProcessSource().read(devices))


def _terminal() -> Terminal:
    encoding = (sys.stdout.encoding or "") if sys.stdout else ""
    if sys.stdout is None or not sys.stdout.isatty():
        return Terminal(None, encoding)
    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    return Terminal((columns, lines), encoding)


_DEVICE_ID = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]+")


def impersonal(text: str, environment: Mapping[str, str]) -> str:
    """`text` without the home folder, the user, the host and device UUIDs, which an error message may contain."""
    host, home = os.uname().nodename, environment.get("HOME", "")
    user = environment.get("USER") or environment.get("LOGNAME", "")
    text = _DEVICE_ID.sub(r"\1-(UUID)", text)
    text = re.sub(rf"\b{re.escape(host)}\b", "(host)", text) if host else text
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|\b)", "~", text)
    return text if user in ("", "root") else re.sub(rf"\b{re.escape(user)}\b", "(user)", text)
