"""Runs the tests that are quick or of screens, or that a place may decide, in copies of the checkout in odd places.

    python -m tests.places                         in all of them
    python -m tests.places umlaut -- tests/inject  in one, these tests

The copies share the packages of this interpreter, and those in a folder called site-packages on its PYTHONPATH, which
come first. What fails in a place is printed whole.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("-m", "quick or screens or place")
NOBODY = 65534
LONG = "a-folder-that-leaves-no-room-for-the-path-of-a-socket/" * 3


@dataclass(frozen=True)
class Place:
    """Where a copy lies, below a temporary folder, and what its caller has set; `{home}` is a folder of the user's."""

    words: str
    folder: str
    variables: Mapping[str, str] = field(default_factory=dict)
    on: str = "/tmp"
    link: str = ""
    is_nobodys: bool = False


OF_THE_USER = ("PYTHONPATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
PLACES = {
    "umlaut": Place("a path with a space and an umlaut, with LANG=C", "my jobs/Zürich", {"LANG": "C", "LC_ALL": ""}),
    "link": Place(
        "behind a symbolic link, on another file system, with PYTHONSAFEPATH, folders of the user's and a long TMPDIR",
        "real",
        {**dict.fromkeys(OF_THE_USER, "{home}"), "PYTHONSAFEPATH": "1", "TMPDIR": f"{{home}}/{LONG}"},
        on="/dev/shm",
        link="link",
    ),
    "user": Place(
        "below /tmp, called gputui, as a user who is not root, with a preloaded library, settings, and a narrow "
        "terminal without colours",
        "gputui",
        {"LD_PRELOAD": "libm.so.6", "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "40", "HOME": "{home}"},
        is_nobodys=True,
    ),
}


def copy_to(folder: Path) -> None:
    """Copy what git knows, and what is new, and make an environment there with the packages of this interpreter."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).exists():  # git lists what was deleted and not yet committed, too
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    venv.create(folder / ".venv", symlinks=True)
    (site_packages,) = folder.glob(".venv/lib/python*/site-packages")
    links = [folder.parent / f"packages-{number}" for number, _ in enumerate(packages())]
    for link, path in zip(links, packages(), strict=True):
        link.symlink_to(path)  # as older Pythons do not start where a locale cannot say the path of a package
    (site_packages / "packages.pth").write_text("\n".join(map(str, [folder, *links])), encoding="utf-8")


def packages() -> list[str]:
    """The folders in which this interpreter finds packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def as_nobody(command: list[str], base: Path) -> list[str]:
    """The command, run by a user who can read this interpreter and its packages even in a folder of root's.

    They are mounted at their own paths below empty folders, which only the command sees.
    """
    hidden = [folder for folder in map(Path, [sys.base_prefix, *packages()]) if closed_above(folder)]
    held = {folder: base / f"held-{number}" for number, folder in enumerate(hidden)}
    steps: list[list[object]] = []
    for folder, at in held.items():
        steps += [["mkdir", at], ["mount", "--bind", folder, at]]
    steps += [["mount", "-t", "tmpfs", "-o", "mode=755", "none", path] for path in set(map(closed_above, hidden))]
    for folder, at in held.items():
        steps += [["mkdir", "-p", folder], ["mount", "--move", at, folder]]
    steps.append(["exec", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command])
    return ["unshare", "--mount", "sh", "-e", "-c", "\n".join(shlex.join(map(str, step)) for step in steps)]


def closed_above(path: Path) -> Path | None:
    """The topmost folder on the way to `path` that others may not enter, None if there is none."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def give(folder: Path) -> None:
    """Make all below `folder` the property of the user who is not root."""
    for path in [folder, *folder.rglob("*")]:
        os.lchown(path, NOBODY, NOBODY)


def run(place: Place, base: Path, arguments: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a place, which is made below `base`."""
    folder = base / place.folder
    copy_to(folder)
    if place.link:
        (base / place.link).symlink_to(folder)
        folder = base / place.link
    home = base / "home"
    (home / ".config/gputui").mkdir(parents=True)
    (home / ".config/gputui/config.toml").write_text("no settings")
    variables = {"PYTHONPATH": ""} | {name: value.format(home=home) for name, value in place.variables.items()}
    Path(variables.get("TMPDIR", home)).mkdir(parents=True, exist_ok=True)
    command = [f"{folder}/.venv/bin/python", "-m", "pytest", "-q", "--tb=short", *arguments]
    if place.is_nobodys and os.geteuid() == 0:
        command = as_nobody(command, base)
        base.chmod(0o755)  # in the other places, only root can enter it
        give(folder)
        give(home)
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PWD": str(folder), **variables}, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


def is_passed(place: Place, arguments: Iterable[str]) -> bool:
    """Run tests in a place; a line says how that ended."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="places-", dir=place.on) as base:
        done = run(place, Path(base), arguments)
    if done.returncode != 0:
        say(done.stdout)
    say(f"{place.words}: {done.stdout.splitlines()[-1]}, {time.monotonic() - start:.0f} s in all")
    return done.returncode == 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Run the tests in the places that are named, in all if none is; 1 if a test failed."""
    names, arguments = words, list(TESTS)
    if "--" in words:
        at = words.index("--")
        names, arguments = words[:at], words[at + 1 :]
    unknown = [name for name in names if name not in PLACES]
    if unknown:
        say(f"There is no place {unknown[0]}. There are: {', '.join(PLACES)}.")
        return 2
    passed = [is_passed(PLACES[name], arguments) for name in names or PLACES]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
