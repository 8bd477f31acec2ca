"""Four viewers ask as fast as they can, while a program does everything that a look could disturb."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from gputui.model.attached.target import ActionName
from gputui.sources.probe.client import ProbeClient, ProbeError
from tests.attach.children import Python, wait_until
from tests.scale import SCALE

STORM = Path(__file__).parent / "programs" / "storm.py"
AT_LEAST, AT_MOST = 4 * SCALE, 1000 * SCALE
STATUS = 7

Ask = Callable[[ProbeClient], object]
ASKS: dict[str, Ask] = {
    "walk": lambda client: client.look("walk", wait_s=60.0),
    "counters": lambda client: client.statistics(),
    "scan": lambda client: client.look("scan", wait_s=60.0),
    "collect": lambda client: client.run_action(ActionName.COLLECT, wait_s=60.0),
    "empty the cache": lambda client: client.run_action(ActionName.EMPTY_CACHE, wait_s=60.0),
}
LOOKS, ACTS = ("walk", "counters", "scan"), ("empty the cache", "collect")


class Viewer:
    """Asks one thing after the other until the program has ended."""

    def __init__(self, client: ProbeClient, number: int) -> None:
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._client = client
        self._names = (*LOOKS, ACTS[number % len(ACTS)])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def has_asked_everything(self) -> bool:
        """Whether it got an answer to each request, or will get none."""
        return self.failure is not None or len(self.counts) == len(self._names)

    def join(self) -> None:
        """Wait until it has noticed the end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._client.subscribe(0.1)
            for name in cycle(self._names):
                ASKS[name](self._client)
                self.counts[name] += 1
        except ProbeError as error:
            self.failure = error


@pytest.mark.long
def test_a_program_in_a_storm_goes_on_and_ends_as_it_would(torch_python: Python, record_property) -> None:
    child = torch_python.fork(STORM, str(AT_LEAST), str(AT_MOST))
    child.expect("ready")
    viewers = [Viewer(child.attach(), number) for number in range(4)]
    child.say("go")
    wait_until(lambda: all(viewer.has_asked_everything for viewer in viewers), "an answer to everything")
    child.say("enough")
    steps, has_raised = child.expect("steps").split()
    assert AT_LEAST <= int(steps) < AT_MOST
    assert has_raised == "True"
    assert child.expect("hostile") == "[]"
    assert child.expect("left") == "False"
    assert child.ended() == STATUS
    for viewer in viewers:
        viewer.join()
    asked = sum((viewer.counts for viewer in viewers), Counter())
    record_property("count", f"{steps} steps, {dict(asked)}")
    assert child.errors == ""
    assert all("ended" in str(viewer.failure) for viewer in viewers), [viewer.failure for viewer in viewers]
