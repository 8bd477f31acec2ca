"""A plugin of pytest: a test fails where a step of training needs more GPU memory than its marker says.

    @pytest.mark.gpu_peak("2GiB")
    def test_a_step_fits(gpu_peak):
        gpu_peak(train.setup, batch=8)

No GPU is needed: two steps are taken on tensors without data, as `gputui check` does. With --gpu-peak=measure they
run on this machine's GPU instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gputui.errors import GputuiError

MARKER = "gpu_peak"
WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --gpu-peak."""
    parser.getgroup("gputui").addoption(
        "--gpu-peak",
        choices=("rehearse", "measure"),
        default="rehearse",
        help="tell the peaks of GPU memory on tensors without data (default), or measure them on a GPU",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}(budget): what PyTorch may reserve on a GPU, such as '2GiB'")


@pytest.fixture
def gpu_peak(request: pytest.FixtureRequest) -> Callable[..., int]:
    """A function that takes two steps of what FUNCTION(**arguments) returns, and gives the peak in bytes.

    FUNCTION is at the top of a module, and returns one of the forms that `gputui whatif --help` lists. The test fails
    where the peak of reserved memory is above the marker's budget.
    """
    marker = request.node.get_closest_marker(MARKER)
    budget = str(marker.args[0]) if marker is not None and marker.args else ""
    tell = _measured if request.config.getoption("--gpu-peak") == "measure" else _rehearsed

    def peak(function: Callable[..., Any], **arguments: object) -> int:
        with _failing():
            return tell(function, arguments, budget)

    return peak


@contextmanager
def _failing() -> Iterator[None]:
    """An error of gputui's fails the test with its sentence."""
    try:
        yield
    except GputuiError as error:
        pytest.fail(str(error), pytrace=False)


def _rehearsed(function: Callable[..., Any], arguments: dict[str, Any], budget: str) -> int:
    from gputui.commands.printed.check import check_report
    from gputui.explain.check.checked import checked
    from gputui.explain.check.target import Target, budget_of
    from gputui.sources.rehearsal import Surroundings, rehearse

    words = f"{function.__module__}:{function.__qualname__}"
    target = Target(words, words, arguments, budget_bytes=budget_of(budget, ""))
    check = checked(target, rehearse(words, arguments, Surroundings(sys.executable), sys.path), {})
    if check.fails:
        pytest.fail(check_report(check, WIDTH), pytrace=False)
    return check.peak.reserved_bytes


def _measured(function: Callable[..., Any], arguments: dict[str, Any], budget: str) -> int:
    from gputui.explain.check.target import budget_of
    from gputui.rehearsal.measure import measured_bytes
    from gputui.units import format_bytes

    reserved_bytes = measured_bytes(function, arguments)
    if reserved_bytes is None:
        cause = "This machine has no GPU that PyTorch can use."
        raise GputuiError(cause, "Leave --gpu-peak=measure out to tell the peak without one.")
    budget_bytes = budget_of(budget, "")
    if budget_bytes is not None and reserved_bytes > budget_bytes:
        words = f"{function.__qualname__} needs {format_bytes(reserved_bytes)} at its peak, measured on this GPU"
        pytest.fail(f"{words}: more than its budget of {format_bytes(budget_bytes)}.", pytrace=False)
    return reserved_bytes
