"""Fuzzes a reader with coverage guidance, started by hand; add the inputs that it finds to the corpus.

    python3 -m venv fuzz && fuzz/bin/pip install atheris      # Python 3.11 to 3.13
    fuzz/bin/python -m tests.fuzz.decoders replies -max_total_time=600
    fuzz/bin/python -m tests.fuzz.decoders requests FILE       # repeats a failing input

Inputs that reach new code are kept in `.fuzz/NAME`; copy the small ones to `tests/fuzz/corpus/NAME`, which the tests
replay.
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
    """Run libFuzzer on the named reader."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m tests.fuzz.decoders {{{','.join(TARGETS)}}} [options of libFuzzer]")
    name, options = sys.argv[1], sys.argv[2:]
    if not any(not option.startswith("-") for option in options):
        new_inputs = Path(".fuzz") / name
        new_inputs.mkdir(parents=True, exist_ok=True)
        options += [str(new_inputs), str(CORPUS / name)]
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
