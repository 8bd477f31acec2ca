"""Fuzzes a reader guided by coverage, by hand and for as long as you like; what it finds belongs into the corpus.

    python3 -m venv fuzz && fuzz/bin/pip install atheris      # Python 3.11 to 3.13
    fuzz/bin/python -m tests.fuzz.decoders replies -max_total_time=600
    fuzz/bin/python -m tests.fuzz.decoders requests FILE       # once more with what made it fail

Inputs that reach something new are kept in `.fuzz/NAME`; the small ones of them belong into `tests/fuzz/corpus/NAME`,
which the tests replay.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import atheris

os.environ["GPUTUI_PROBE"] = "0"

with atheris.instrument_imports():
    from tests.fuzz.targets import CORPUS, TARGETS


def main() -> None:
    """Run libFuzzer on the reader that is named."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m tests.fuzz.decoders {{{','.join(TARGETS)}}} [options of libFuzzer]")
    name, options = sys.argv[1], sys.argv[2:]
    if not any(not option.startswith("-") for option in options):
        found = Path(".fuzz") / name
        found.mkdir(parents=True, exist_ok=True)
        options += [str(found), str(CORPUS / name)]
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
