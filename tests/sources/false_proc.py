"""A folder with the form of /proc, whose processes hold what the test writes: any text, files that vanish."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

NAMES = (
    b"python",
    b"a) R 1 (b",
    b"\x1b]0;owned\x07",
    b"\x9b2J",
    b"\xff\xfe",
    b"",
    b"x\ny",
)
CONTROL = b"\x1b[2J\x1b]0;owned\x07\x9b99m\n\r\xe2\x80\xae\xff"
FILES = ("stat", "status", "cmdline", "environ", "io", "smaps_rollup", "maps", "syscall", "wchan")
FAULTS = ("missing", "empty", "cut", "folder", "noise")


class FalseProc:
    """A root for `ProcFs`; the kernel never shows such files, or only for a moment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        (root / "stat").write_text("cpu 0 0 0 0\nbtime 1763640000\n")

    def add(
        self,
        pid: int,
        *,
        parent: int = 1,
        name: bytes = b"python",
        command: bytes = b"python\0train.py\0",
        environment: bytes = b"HOME=/root\0",
        is_bare: bool = False,
    ) -> None:
        """A process, or another in the place of the one with this PID; a bare one has only what lists need."""
        self.remove(pid)
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        fields = [b"0"] * 49
        fields[0], fields[1], fields[17], fields[19], fields[21] = b"S", b"%d" % parent, b"1", b"%d" % pid, b"100"
        (folder / "stat").write_bytes(b"%d (%b) %b\n" % (pid, name, b" ".join(fields)))
        status = b"Name:\t%b\nState:\tS (sleeping)\nPPid:\t%d\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t%d\n"
        (folder / "status").write_bytes(status % (name.replace(b"\n", b"\\n"), parent, pid))
        (folder / "cmdline").write_bytes(command)
        (folder / "environ").write_bytes(environment)
        if is_bare:
            return
        (folder / "io").write_bytes(b"read_bytes: 1\nwrite_bytes: 2\n")
        (folder / "smaps_rollup").write_bytes(b"Rss: 4 kB\nPss: 4 kB\nShared_Clean: 0 kB\nShared_Dirty: 0 kB\n")
        (folder / "maps").write_bytes(b"7f00-7f01 r-xp 00000000 00:1 7 /usr/lib/libcuda.so" + CONTROL + b"\n")
        (folder / "syscall").write_bytes(b"0 0x3 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n")
        (folder / "wchan").write_bytes(b"futex_wait" + CONTROL)
        (folder / "cwd").symlink_to(b"/tmp/\x1b]0;owned\x07\xff".decode(errors="surrogateescape"))
        (folder / "exe").symlink_to(b"/usr/bin/\x9b2J".decode(errors="surrogateescape"))
        (folder / "fd" / "3").symlink_to(b"/tmp/\x1b[2J".decode(errors="surrogateescape"))

    def remove(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.root / str(pid), ignore_errors=True)

    def spoil(self, pid: int, random: Random) -> None:
        """Make one file of a process unreadable, or change what it holds; reading a folder raises OSError."""
        name, fault = random.choice(FILES), random.choice(FAULTS)
        path = self.root / str(pid) / name
        content = path.read_bytes()
        path.unlink()
        if fault == "folder":
            path.mkdir()
        elif fault == "noise":
            path.write_bytes(bytes(random.randrange(256) for _ in range(random.randrange(200))))
        elif fault != "missing":
            path.write_bytes(content[: random.randrange(len(content))] if fault == "cut" and content else b"")
