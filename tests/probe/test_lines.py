"""The lines that assign a variable and that call a function, from the bytecode of this Python."""

import pytest

from gputui.probe.growing_lines import lines_that_assign, lines_that_call


def assigns(model, torch):
    out = model(1)
    first, second = model(2), model(3)
    total = 0
    for step in range(3):
        total = total + step
        total += 1
    captured = model(4)

    def inner():
        torch.cuda.empty_cache()
        return captured

    if total:
        torch.cuda.empty_cache()
    return out, first, second, inner


FIRST = assigns.__code__.co_firstlineno
LINES = {"out": "1", "first": "2", "second": "2", "total": "3, 5, 6", "step": "4", "captured": "7", "model": ""}


@pytest.mark.parametrize(("variable", "expected"), LINES.items(), ids=LINES)
def test_the_lines_that_assign_a_variable(variable, expected):
    lines = lines_that_assign(assigns.__code__, variable, {})
    numbers = [str(FIRST + int(number)) for number in expected.split(", ")] if expected else []
    assert lines == (f"test_lines.py:{', '.join(numbers)} in assigns" if expected else "")


def test_the_lines_that_call_a_function_also_inside_it():
    assert lines_that_call(assigns.__code__, "empty_cache", {}) == [
        f"test_lines.py:{FIRST + 14} in assigns",
        f"test_lines.py:{FIRST + 10} in inner",
    ]
    assert lines_that_call(assigns.__code__, "synchronize", {}) == []
