"""Jails of seccomp on x86-64: text to put before a program, which then runs in one with all that it starts."""

from __future__ import annotations

_INSTALL = """
import ctypes, struct
_code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in {instructions!r}))
_jail = ctypes.create_string_buffer(struct.pack("<H6xQ", {count}, ctypes.addressof(_code)))
_libc = ctypes.CDLL(None)
assert _libc.prctl(38, 1, 0, 0, 0) == 0 and _libc.prctl(22, 2, _jail) == 0
"""
_ALLOWED, _ERROR, _SIGNAL, _DEATH = 0x7FFF0000, 0x00050001, 0x00030000, 0x80000000
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _THIRD_ARGUMENT, _FIFTH_ARGUMENT = 0, 32, 48
_MMAP, _SIGACTION, _EXECUTABLE, _NO_FILE = 9, 13, 4, 0xFFFFFFFF
_DEBUGGERS_AND_MOUNTS = (101, 310, 311, 165, 166, 272, 308, 246, 248, 249, 250, 298, 321, 323)
"""ptrace, process_vm_readv, process_vm_writev, mount, umount2, unshare, setns and others that containers forbid."""


def _without_executable_memory(action: int) -> list[tuple[int, int, int, int]]:
    """Libraries can still be loaded, because they are mapped from files."""
    return [
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 0, 5, _MMAP),
        (_LOAD, 0, 0, _THIRD_ARGUMENT),
        (_JUMP_IF_BITS, 0, 3, _EXECUTABLE),
        (_LOAD, 0, 0, _FIFTH_ARGUMENT),
        (_JUMP_IF_EQUAL, 0, 1, _NO_FILE),
        (_RETURN, 0, 0, action),
        (_RETURN, 0, 0, _ALLOWED),
    ]


_DENIED = [(_JUMP_IF_EQUAL, len(_DEBUGGERS_AND_MOUNTS) - at, 0, n) for at, n in enumerate(_DEBUGGERS_AND_MOUNTS)]
FILTERS = {
    "allows everything": [(_RETURN, 0, 0, _ALLOWED)],
    "as a container's": [(_LOAD, 0, 0, _NUMBER), *_DENIED, (_RETURN, 0, 0, _ALLOWED), (_RETURN, 0, 0, _ERROR)],
    "no executable memory, by an error": _without_executable_memory(_ERROR),
    "no executable memory, by a signal": _without_executable_memory(_SIGNAL),
    "no handlers of signals, by death": [
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 0, 1, _SIGACTION),
        (_RETURN, 0, 0, _DEATH),
        (_RETURN, 0, 0, _ALLOWED),
    ],
}
STRICT = "import ctypes, os\nos.write(1, b'ready\\n')\nassert ctypes.CDLL(None).prctl(22, 1, 0) == 0\nos.read(0, 1)\n"
"""A program in strict mode, in which it may read, write and end, and nothing else."""
_CONTAINER = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""


def jail(name: str) -> str:
    """Text that puts a filter on the program that it stands in."""
    return _INSTALL.format(instructions=FILTERS[name], count=len(FILTERS[name]))


def container(python: str, name: str) -> list[str]:
    """The command that runs a Python with the arguments after it in a PID namespace that has the filter; for root.

    The program is the only child of the child of what this starts.
    """
    return ["unshare", "--pid", "--fork", "--mount-proc", python, "-c", jail(name) + _CONTAINER]
