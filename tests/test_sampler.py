"""The sampler and the device reader: one thread each, for which no caller ever waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from gputui.model.machine.device import DeviceLook, Driver
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sampler import Sampler
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.machine import DeviceThread
from gputui.sources.signals import SignalRefused
from tests.hanging import HANGS_S, wait_until

NEVER_S = 3600.0


class Machine:
    """Counts looks; a closed `gate` blocks a look."""

    def __init__(self, name: str = "first") -> None:
        self.name = name
        self.looks: list[tuple[Attention, float]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        self.looks.append((attention, interval_s))
        assert self.gate.wait(HANGS_S)
        return Snapshot(
            number=len(self.looks), interval_s=interval_s, host=Snapshot().host._replace(hostname=self.name)
        )

    def send_signal(self, identity: Identity, number: int) -> None:
        raise AssertionError

    def close(self) -> None:
        self.is_closed = True


class Running:
    """A sampler on a machine, and the snapshots it delivered."""

    def __init__(self, interval_s: float) -> None:
        self.machine = Machine()
        self.snapshots: list[Snapshot] = []
        self.sampler = Sampler(self.machine, self.snapshots.append, interval_s)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.snapshots) >= count)


@pytest.fixture
def slow() -> Iterator[Running]:
    """A sampler that looks once, and then only on request."""
    running = Running(NEVER_S)
    running.sampler.start()
    running.wait_for(1)
    yield running
    running.machine.gate.set()
    running.sampler.stop()


@pytest.fixture
def fast() -> Iterator[Running]:
    """A sampler with the shortest interval."""
    running = Running(0.001)
    running.sampler.start()
    yield running
    running.sampler.stop()


def test_the_first_snapshot_is_immediate_and_others_follow_the_interval(fast: Running) -> None:
    fast.wait_for(5)
    assert [snapshot.number for snapshot in fast.snapshots[:5]] == [1, 2, 3, 4, 5]


def test_a_long_interval_is_respected(slow: Running) -> None:
    assert len(slow.machine.looks) == 1


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda sampler: sampler.refresh(), id="refresh"),
        pytest.param(lambda sampler: sampler.set_interval(NEVER_S - 1), id="another interval"),
        pytest.param(lambda sampler: sampler.set_attention(Attention(frozenset({"GPU-0"}))), id="new attention"),
    ],
)
def test_requests_are_answered_immediately(slow: Running, ask: Callable[[Sampler], None]) -> None:
    ask(slow.sampler)
    slow.wait_for(2)


def test_the_interval_and_the_attention_reach_the_machine(slow: Running) -> None:
    slow.sampler.set_interval(1800.0)
    slow.wait_for(2)
    watched = Attention(frozenset({"GPU-0"}), Identity(1, 2.0))
    slow.sampler.set_attention(watched)
    wait_until(lambda: slow.machine.looks[-1] == (watched, 1800.0))


def test_unchanged_attention_requests_no_look(slow: Running) -> None:
    slow.sampler.set_attention(Attention())
    slow.sampler.refresh()
    slow.wait_for(2)
    assert len(slow.machine.looks) == 2


def test_a_request_during_a_look_is_answered_after_it(slow: Running) -> None:
    slow.machine.gate.clear()
    slow.sampler.refresh()
    wait_until(lambda: len(slow.machine.looks) == 2)
    watched = Attention(frozenset({"GPU-0"}))
    slow.sampler.set_attention(watched)
    slow.machine.gate.set()
    wait_until(lambda: slow.machine.looks[-1][0] == watched)


def test_nothing_is_read_while_paused(fast: Running) -> None:
    fast.wait_for(2)
    fast.sampler.set_paused(True)
    wait_until(lambda: fast.sampler._is_paused and not fast.sampler._wake.is_set())
    fast.sampler.refresh()
    wait_until(lambda: not fast.sampler._wake.is_set())
    looks = len(fast.machine.looks)
    for _ in range(5):
        fast.sampler.refresh()
        fast.sampler.set_attention(Attention(frozenset({str(looks)})))
        wait_until(lambda: not fast.sampler._wake.is_set())
    assert len(fast.machine.looks) == looks
    fast.sampler.set_paused(False)
    wait_until(lambda: len(fast.machine.looks) > looks)


def test_replacing_the_machine_leaves_the_old_one_open(slow: Running) -> None:
    other = Machine("second")
    slow.sampler.replace(other)
    wait_until(lambda: slow.snapshots[-1].host.hostname == "second")
    assert not slow.machine.is_closed
    slow.sampler.stop()
    wait_until(lambda: other.is_closed)


def test_stopping_does_not_wait_for_a_hanging_look_and_drops_its_result(slow: Running) -> None:
    slow.machine.gate.clear()
    slow.sampler.refresh()
    wait_until(lambda: len(slow.machine.looks) == 2)
    slow.sampler.stop()
    assert not slow.machine.is_closed
    slow.machine.gate.set()
    wait_until(lambda: slow.machine.is_closed)
    assert len(slow.snapshots) == 1


def test_the_sampler_thread_does_not_keep_a_program_alive(slow: Running) -> None:
    assert slow.sampler._thread.daemon


class Source:
    """A driver; a closed `gate` blocks a call, as a faulty GPU does."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.reads = 0
        self.watched: frozenset[str] = frozenset()
        self.is_closed = False

    def watch(self, keys: frozenset[str]) -> None:
        self.watched = keys

    def watch_profiles(self) -> None:
        self.reads_before_profiles = self.reads

    def watch_faults(self) -> None:
        """There are none."""

    def read(self) -> DeviceLook:
        self.reads += 1
        number = self.reads
        assert self.gate.wait(HANGS_S)
        return DeviceLook(Driver(str(number)))

    def close(self) -> None:
        self.is_closed = True


class Driven:
    """A reader of a driver, with a clock that the test sets."""

    def __init__(self) -> None:
        self.source = Source()
        self.now = 100.0
        self.reader = DeviceThread(lambda: self.source, lambda: self.now)

    def hang(self) -> None:
        """Make the next call of the driver hang."""
        self.source.gate.clear()
        reads = self.source.reads
        self.reader.request(frozenset())
        wait_until(lambda: self.source.reads == reads + 1)


@pytest.fixture
def driven() -> Iterator[Driven]:
    driven = Driven()
    yield driven
    driven.reader.close()
    driven.source.gate.set()


def test_a_look_that_succeeds_has_no_age(driven: Driven) -> None:
    driven.reader.request(frozenset({"GPU-0"}))
    look, age_s = driven.reader.result(HANGS_S)
    assert (look.driver.version, age_s) == ("1", 0.0)
    assert driven.source.watched == {"GPU-0"}


def test_while_a_call_hangs_the_last_look_ages_without_blocking(driven: Driven) -> None:
    driven.reader.request(frozenset())
    driven.reader.result(HANGS_S)
    driven.hang()
    for age in (1.0, 2.0, 75.0):
        driven.now = 100.0 + age
        driven.reader.request(frozenset())
        look, age_s = driven.reader.result(0.0)
        assert (look.driver.version, age_s) == ("1", age)
    assert driven.source.reads == 2


def test_a_hanging_first_call_has_an_age(driven: Driven) -> None:
    driven.hang()
    driven.now = 103.0
    look, age_s = driven.reader.result(0.0)
    assert (look, age_s) == (DeviceLook(), 3.0)


def test_after_a_hanging_call_ends_looks_are_new_again(driven: Driven) -> None:
    driven.hang()
    driven.source.gate.set()
    assert driven.reader.result(HANGS_S)[1] == 0.0
    driven.reader.request(frozenset())
    look, age_s = driven.reader.result(HANGS_S)
    assert (look.driver.version, age_s) == ("2", 0.0)


def test_closing_closes_the_driver(driven: Driven) -> None:
    driven.reader.request(frozenset())
    driven.reader.result(HANGS_S)
    driven.reader.close()
    wait_until(lambda: driven.source.is_closed)


def test_closing_does_not_wait_and_closes_the_driver_later(driven: Driven) -> None:
    driven.hang()
    driven.reader.close()
    assert not driven.source.is_closed
    driven.source.gate.set()
    wait_until(lambda: driven.source.is_closed)


def test_closing_an_unused_reader_opens_no_driver() -> None:
    reader = DeviceThread(lambda: pytest.fail("opened"))
    reader.close()


def test_the_demo_machine_is_marked_and_sends_no_signal() -> None:
    machine = DemoMachine()
    first = machine.look(Attention(), 2.0)
    assert (first.is_demo, first.number, first.interval_s, first.details) == (True, 1, 2.0, None)
    one = first.processes.processes[0].identity
    second = machine.look(Attention(process=one), 2.0)
    assert second.number == 2
    assert second.details is not None
    assert second.details.identity == one
    with pytest.raises(SignalRefused, match="demonstration"):
        machine.send_signal(one, 15)
    machine.close()
