"""The doctor's checks, as a table. Their findings name no user, host, device or process."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gputui.doctor.diagnosis import Diagnosis, Grade, fine
from gputui.doctor.here import Here, impersonal, look_here
from gputui.environment import PREFIX
from gputui.errors import GputuiError, did_you_mean
from gputui.model.reading import Absent, value_of
from gputui.settings import load_settings
from gputui.settings.file import settings_path, shown_path
from gputui.settings.table import VARIABLES
from gputui.terminals import CANNOT_SHOW, is_utf8
from gputui.units import GIB, format_bytes

SMALL_SHM_BYTES = GIB
"""Docker gives a container 64 MiB of /dev/shm; a few prefetched batches of a few DataLoader workers need more."""

_PACKAGES = ("textual", "nvidia-ml-py")
_FOREIGN_BINDINGS = ("nvidia-ml-py2", "nvidia-ml-py3", "pynvml")
"""Packages that replace nvidia-ml-py's module `pynvml` with their own."""
_MANY_COLORS = ("truecolor", "24bit")


def check_python(here: Here) -> Iterator[Diagnosis]:  # noqa: ARG001 - all checks have one signature
    """The interpreter, and the packages that gputui needs."""
    yield fine("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    versions = {package: _version(package) for package in _PACKAGES}
    for package, version in versions.items():
        if version is None:
            yield Diagnosis("packages", Grade.BROKEN, f"{package} is not installed.", f"pip install {package}")
    yield fine("packages", ", ".join(f"{package} {version}" for package, version in versions.items() if version))


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_terminal(here: Here) -> Iterator[Diagnosis]:
    """Type, size, colours and characters of the terminal."""
    if here.terminal.size is None:
        yield fine("terminal", "standard output is not a terminal; run the doctor in a terminal to check it")
        return
    kind = here.environment.get("TERM", "")
    columns, lines = here.terminal.size
    if kind in CANNOT_SHOW:
        text = f"TERM is {kind!r}, which cannot show a full-screen program."
        yield Diagnosis("terminal", Grade.BROKEN, text, "Set TERM to your terminal's type, such as xterm-256color.")
    elif not columns or not lines:
        yield Diagnosis("terminal", Grade.LIMITED, f"{kind} does not report its size.", "stty rows 24 cols 80")
    elif columns < 80 or lines < 24:
        yield Diagnosis(
            "terminal",
            Grade.LIMITED,
            f"{kind}, {columns}x{lines}",
            "Enlarge it to at least 80x24: the screens leave out parts below that.",
        )
    else:
        yield fine("terminal", f"{kind}, {columns}x{lines}")
    yield _colors(here, kind)
    if not is_utf8(here.terminal.encoding):
        text = f"{here.terminal.encoding or 'unknown'}: lines and graphs are drawn as question marks."
        yield Diagnosis("characters", Grade.LIMITED, text, "export LC_ALL=C.UTF-8, or gputui --ascii")
    else:
        yield fine("characters", "UTF-8")


def _colors(here: Here, kind: str) -> Diagnosis:
    if here.environment.get("NO_COLOR"):
        return fine("colors", "none (NO_COLOR is set)")
    if here.environment.get("COLORTERM", "").lower() in _MANY_COLORS:
        return fine("colors", "truecolor")
    if "256" in kind:
        return fine("colors", "256 (if the terminal has more: export COLORTERM=truecolor, which ssh does not forward)")
    return Diagnosis("colors", Grade.LIMITED, "16", "If the terminal has more: export TERM=xterm-256color")


def check_settings(here: Here) -> Iterator[Diagnosis]:
    """Whether the settings file and gputui's environment variables are valid."""
    path = settings_path(here.environment)
    try:
        load_settings(here.environment)
    except GputuiError as error:
        yield Diagnosis("settings", Grade.BROKEN, error.cause, error.remedy)
    else:
        yield fine("settings", shown_path(path) if os.path.exists(path) else f"defaults (no {shown_path(path)})")
    for name in here.environment:
        if name.startswith(PREFIX) and name not in VARIABLES:
            yield Diagnosis(
                "settings", Grade.LIMITED, f"{name} is set, but gputui does not know it.", did_you_mean(name, VARIABLES)
            )


def check_binding(here: Here) -> Iterator[Diagnosis]:  # noqa: ARG001
    """Whether another package may have overwritten nvidia-ml-py's module."""
    for package in _FOREIGN_BINDINGS:
        version = _version(package)
        if version is None or (package == "pynvml" and int(version.split(".")[0]) >= 12):
            continue  # pynvml from 12 on only depends on nvidia-ml-py
        text = f"{package} {version} replaces nvidia-ml-py's module pynvml with its own."
        remedy = f"pip uninstall {package} && pip install --force-reinstall nvidia-ml-py"
        yield Diagnosis("binding", Grade.LIMITED, text, remedy)


def check_driver(here: Here) -> Iterator[Diagnosis]:
    """Whether NVML works, with the versions of the driver and of CUDA."""
    if here.devices.problem:
        remedy = "Until then, gputui shows the host alone; gputui --demo shows a simulated machine."
        yield Diagnosis("driver", Grade.BROKEN, here.devices.problem, remedy)
        return
    driver = here.devices.driver
    yield fine(
        "driver", f"{value_of(driver.version) or 'unknown version'}, CUDA {value_of(driver.cuda_version) or '?'}"
    )


def check_devices(here: Here) -> Iterator[Diagnosis]:
    """How many devices answer, and the problems of each."""
    if here.devices.problem:
        return
    lost = [(device.index, device.lost) for device in here.devices.devices if device.lost is not None]
    answering = len(here.devices.devices) - len(lost)
    if not here.devices.devices:
        yield Diagnosis(
            "devices", Grade.BROKEN, "NVML works but reports no devices.", "In a container, start it with --gpus all."
        )
        return
    yield fine("devices", f"{answering} of {len(here.devices.devices)} answer")
    for index, why in lost:
        yield Diagnosis("devices", Grade.BROKEN, f"GPU {index}: {why.sentence}")
    for device in here.devices.devices:
        for problem in device.problems:
            yield Diagnosis("devices", Grade.LIMITED, f"GPU {device.index}: {problem}")


def check_processes(here: Here) -> Iterator[Diagnosis]:
    """Whether NVML's processes are visible here, with the memory they hold."""
    if here.processes.problem:
        yield Diagnosis("processes", Grade.LIMITED, here.processes.problem)
    unknown = {use.used_bytes.reason for use in here.devices.uses if isinstance(use.used_bytes, Absent)}
    for reason in sorted(unknown):
        yield Diagnosis("processes", Grade.LIMITED, f"The memory of some processes is unknown: {reason}")
    if not here.processes.problem and not unknown and not here.devices.problem:
        yield fine("processes", f"{len({use.pid for use in here.devices.uses})} on the devices, all with their memory")


def check_namespace(here: Here) -> Iterator[Diagnosis]:  # noqa: ARG001
    """In a container NVML may report PIDs of the host, which mean nothing inside."""
    from gputui.sources.processes.namespace import is_private
    from gputui.sources.procfs import ProcFs

    if is_private(ProcFs()):
        remedy = "If the list of processes is empty or wrong, start the container with --pid=host."
        yield Diagnosis("PID namespace", Grade.LIMITED, "private, as in a container", remedy)
    else:
        yield fine("PID namespace", "the machine's own")


def check_shm(here: Here) -> Iterator[Diagnosis]:  # noqa: ARG001
    """/dev/shm, through which DataLoader workers pass batches."""
    try:
        space = os.statvfs("/dev/shm")
    except OSError as error:
        yield Diagnosis(
            "/dev/shm", Grade.LIMITED, f"{error.strerror}.", "DataLoader workers need it: mount a tmpfs there."
        )
        return
    size = space.f_blocks * space.f_frsize
    if size < SMALL_SHM_BYTES:
        remedy = (
            "DataLoader workers may run out of it (bus error): start the container with --shm-size=8g or --ipc=host."
        )
        yield Diagnosis("/dev/shm", Grade.LIMITED, f"{format_bytes(size)} in all", remedy)
    else:
        yield fine("/dev/shm", f"{format_bytes(size)} in all")


def check_probe_folder(here: Here) -> Iterator[Diagnosis]:
    """The folder in which probes and viewers meet."""
    from gputui.protocol.places import fault_of_folder, folder_of

    folder = folder_of(os.getuid(), here.environment.get("XDG_RUNTIME_DIR"))
    shown = (
        "$XDG_RUNTIME_DIR/gputui"
        if folder == f"{here.environment.get('XDG_RUNTIME_DIR')}/gputui"
        else "/tmp/gputui-UID"
    )
    try:
        fault = fault_of_folder(folder, os.getuid(), shown_as=shown)
    except FileNotFoundError:
        yield fine("probe folder", f"{shown} (the first probe creates it)")
        return
    if fault:
        remedy = "Remove it, or make it yours with mode 700; attaching does not work until then."
        yield Diagnosis("probe folder", Grade.BROKEN, f"{fault}.", remedy)
    else:
        sockets = sum(path.is_socket() for path in Path(folder).iterdir())
        yield fine("probe folder", f"{shown}, {sockets} probe{'' if sockets == 1 else 's'}")


Check = Callable[[Here], Iterator[Diagnosis]]


def check_attaching(here: Here) -> Iterator[Diagnosis]:  # noqa: ARG001 - all checks have one signature
    """Whether the probe can be put into programs that were started without it."""
    from gputui.inject.process.process_facts import may_attach
    from gputui.inject.ways import x86_64

    rule, remedy = may_attach()
    if not x86_64.IS_HERE and shutil.which("gdb") is None:
        text = (
            f"On {platform.machine()} gputui puts the probe into programs before Python 3.14 by gdb, which is missing."
        )
        yield Diagnosis("attaching", Grade.LIMITED, text, "Install gdb, or start programs with gputui run.")
    elif rule:
        yield Diagnosis("attaching", Grade.LIMITED, rule, remedy)
    else:
        how = "" if x86_64.IS_HERE else ", before Python 3.14 by gdb"
        yield fine("attaching", f"the probe can be put into running programs{how}")


CHECKS: tuple[Check, ...] = (
    check_python,
    check_terminal,
    check_settings,
    check_binding,
    check_driver,
    check_devices,
    check_processes,
    check_namespace,
    check_shm,
    check_probe_folder,
    check_attaching,
)


def examine(here: Here | None = None) -> list[Diagnosis]:
    """All findings, in the order of `CHECKS`, without anything personal."""
    here = look_here() if here is None else here
    return [
        replace(
            finding,
            text=impersonal(finding.text, here.environment),
            remedy=impersonal(finding.remedy, here.environment),
        )
        for check in CHECKS
        for finding in check(here)
    ]
