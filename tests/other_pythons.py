"""Pythons of other versions that this machine has, by their names: `python3.14`."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path


@lru_cache
def other_python(name: str) -> str:
    """The path of a Python in $GPUTUI_TEST_PYTHON, in $PATH or of pyenv that runs, "" if there is none."""
    version = name.removeprefix("python")
    named = [path for path in os.environ.get("GPUTUI_TEST_PYTHON", "").split(":") if Path(path).name == name]
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in [*named, shutil.which(name), *map(str, of_pyenv)]:
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return ""
