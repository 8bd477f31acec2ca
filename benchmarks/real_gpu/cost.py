"""What the probe costs a step that the GPU bounds: windows that alternate within one program."""

from __future__ import annotations

import statistics
from collections import defaultdict

from benchmarks.asked_program import AskedProgram
from benchmarks.probe import PHASES, PROGRAM, ratio
from benchmarks.real_gpu.place import Place
from benchmarks.real_gpu.result import Result, Size
from gputui.sources.probe import listing

MOST, ENOUGH = 1.01, 3
"""What it may cost, judged from so many rounds on."""
WITHOUT, MEASURED = "without the probe", ("without the probe", "idle", "default rate")


def cost(place: Place, size: Size) -> Result:
    """The ratios of step times: probe without a viewer, and with one, to none."""
    program = place.asked(str(PROGRAM), *size.words, "reads")
    try:
        return _measured(program, size)
    finally:
        program.end()


def _measured(program: AskedProgram, size: Size) -> Result:
    result = Result()
    windows: dict[str, list[dict[str, float]]] = defaultdict(list)
    pauses_ms: list[float] = []
    program.ask("probe on")
    with listing.attach(program.pid) as client:
        client.look()  # the very first look explores the program
    for _ in range(size.rounds):
        for name in MEASURED:
            state, viewer = PHASES[name]
            program.ask(state)
            with viewer(program, pauses_ms):
                windows[name].append(program.ask(str(size.window_s)))
    steps_s = [window["step_s"] for window in windows[WITHOUT]]
    result.figures["a step without the probe, ms"] = round(1e3 * statistics.median(steps_s), 2)
    result.figures["the same, shortest to longest window"] = [round(1e3 * of(steps_s), 2) for of in (min, max)]
    result.figures["longest look, ms"] = round(max(pauses_ms, default=0.0), 1)
    for name in MEASURED[1:]:
        found = ratio(windows[name], windows[WITHOUT], "step_s")
        result.figures[f"step times, {name}, ratio"] = round(found, 4)
        holds = found <= MOST or size.rounds < ENOUGH
        result.expect_time(f"the step's time, {name}", f"{MOST:g} times at most", f"{found:.4f} times", holds=holds)
    return result
