"""What only a GPU can tell: what differs there from what gputui takes for granted. Takes less than twenty minutes.

    python -m benchmarks.real_gpu [--json FILE] [--fake] [--brief]
    python -m benchmarks.real_gpu --fake --seconds 45 --programs trainer lora unet ...

On the first GPU, with PyTorch alone: NVML's readings against nvidia-smi's, how long each NVML call takes, GPM,
`empty_cache()` against its prediction, the sizes of context and workspaces, what the probe costs, attaching to a
training, an out-of-memory error, a CUDA graph, where in a step looks fall. It prints what differs, the figures, and a
row for docs/versions.md; FILE gets the same as JSON without names of hosts and users, paths and PIDs, for a report.
`--fake` does it on a fake GPU, on which each kernel takes 150 us; `--brief` with the smallest counts.

With `--programs`, those of `benchmarks.looks` run instead, each bound by the GPU, and with `--fake` bound by Python as
well: on a fake GPU whose kernels take no time. A viewer attaches as the screens do and presses no key. The Python that
runs this, or the first of those that `GPUTUI_TEST_TORCH` names, needs a CUDA build of PyTorch.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.looks_table import as_text
from benchmarks.real_gpu.parts import run_parts
from benchmarks.real_gpu.place import EndedError, Place, a_place
from benchmarks.real_gpu.report import HEADINGS, document_of, lines_of, row_of
from benchmarks.real_gpu.result import MEDIUM_BYTES, SIZES, Result, Size
from benchmarks.real_gpu.steps import HEADINGS as STEP_HEADINGS
from benchmarks.real_gpu.steps import WITHIN_S, Run, programs, row, watch


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="how long each program is watched")
    parser.add_argument("--fake", action="store_true", help="on a fake GPU")
    parser.add_argument("--size", choices=SIZES, help="of the GPT (default: medium, small on a small GPU)")
    parser.add_argument("--brief", dest="size", action="store_const", const="brief", help="the smallest counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into FILE")
    parser.add_argument(
        "--programs", nargs="*", metavar="NAME", help="programs of benchmarks.looks in place of all others"
    )
    return parser.parse_args()


def main() -> int:
    """Do it, and return 1 where nothing could be done."""
    options = parsed()
    is_forked = bool(options.size) and SIZES[options.size].is_forked
    try:
        with a_place(is_fake=options.fake, is_forked=is_forked) as place:
            fits = "medium" if place.facts["free_bytes"] >= MEDIUM_BYTES else "small"
            size = SIZES[options.size or fits]
            if options.seconds is not None:
                size = size._replace(steps_s=options.seconds)
            if options.programs is None:
                do_all(place, size, options.json)
            else:
                watch_programs(place, size, options.programs, options.json)
    except (EndedError, AssertionError) as error:
        print(f"{error}\nWithout a GPU: --fake.", file=sys.stderr)
        return 1
    return 0


def do_all(place: Place, size: Size, file: Path | None) -> None:
    """Run all parts; what is known is in the file after each."""
    results: dict[str, Result] = {}
    for name, result in run_parts(place, size):
        results[name] = result
        document = document_of(place, results)
        print("\n".join(lines_of(name, document["parts"][name])), flush=True)
        if file:
            file.write_text(json.dumps(document, indent=1))
    print(f"\n| {' | '.join(HEADINGS)} |\n{row_of(document)}")


def watch_programs(place: Place, size: Size, names: list[str], file: Path | None) -> None:
    """Watch these programs, and print the table and the first lines."""
    runs: dict[str, Run] = {}
    for name, words, kernel_us in programs(place, names, size.words):
        try:
            runs[name] = watch(place, words, seconds=size.steps_s, kernel_us=kernel_us)
        except EndedError as error:
            print(f"{name}: {error}", file=sys.stderr)
        if file:
            file.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}, indent=1))
    print(as_text([STEP_HEADINGS, *(row(name, run) for name, run in runs.items())]))
    for name, run in runs.items():
        print(f"\nThe first line after {WITHIN_S:.0f} s, {name}: {run.line}")


if __name__ == "__main__":
    sys.exit(main())
