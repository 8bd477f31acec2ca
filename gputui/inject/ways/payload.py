"""What is put into the program: the text that runs there first, and the probe's modules, compressed one by one."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass

from gputui.inject.ways.data_region import REPORT_AT, REPORT_BYTES, TEXT_AT

_HERE = os.path.dirname(os.path.abspath(__file__))
_BOOTSTRAP = os.path.join(_HERE, "bootstrap.py")
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_CARRIED = ("__init__.py", "environment.py", "probe", "protocol")
LINGER_S = 600.0
"""How long a probe that was put in stays after its last viewer has gone."""


@dataclass(frozen=True, slots=True)
class Content:
    """`data` is the modules and, from `text_at` on, the text to run."""

    data: bytes
    text_at: int


def for_memory(linger_s: float) -> Content:
    """What is written into the data region from `TEXT_AT` on; the text ends with a zero."""
    modules = archive()
    parameters = {
        "archive": (TEXT_AT, TEXT_AT + len(modules)),
        "report": (REPORT_AT, REPORT_AT + REPORT_BYTES),
        "linger_s": linger_s,
    }
    text = f"{bootstrap()}\n_load_from_memory(region, {parameters!r})\n"
    return Content(modules + text.encode() + b"\0", len(modules))


def for_file(linger_s: float) -> Content:
    """The file that a script reads; the program changes its first byte when it begins, and when it has finished."""
    modules = archive()
    parameters = {"archive": (0, len(modules)), "linger_s": linger_s}
    text = f"{bootstrap()}\n_load_from_file(path, content, {parameters!r})\n"
    return Content(modules + text.encode(), len(modules))


def bootstrap() -> str:
    """The text that starts the probe in the program, after the texts of the two modules that it needs."""
    before = (os.path.join(_PACKAGE, "probe", name) for name in ("own_imports.py", "guards/originals.py"))
    return "".join(map(_text, (*before, _BOOTSTRAP)))


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def archive() -> bytes:
    """The probe's modules: a line with an entry `name:is_package:bytes` for each, then the modules in that order."""
    index, bodies = [], []
    for name, path, is_package in sorted(_modules()):
        with open(path, "rb") as file:
            body = zlib.compress(file.read(), 9)
        index.append(f"{name}:{is_package:d}:{len(body)}")
        bodies.append(body)
    return " ".join(index).encode() + b"\n" + b"".join(bodies)


def _modules() -> list[tuple[str, str, bool]]:
    modules = []
    for entry in _CARRIED:
        path = os.path.join(_PACKAGE, entry)
        for file in [path] if entry.endswith(".py") else _files_below(path):
            parts = ["gputui", *os.path.relpath(file, _PACKAGE)[: -len(".py")].split(os.sep)]
            is_package = parts[-1] == "__init__"
            modules.append((".".join(parts[:-1] if is_package else parts), file, is_package))
    return modules


def _files_below(package: str) -> list[str]:
    """The modules of a package and of the packages in it; other folders are not carried."""
    packages = [(folder, names) for folder, _, names in os.walk(package) if "__init__.py" in names]
    return [os.path.join(folder, name) for folder, names in packages for name in names if name.endswith(".py")]
