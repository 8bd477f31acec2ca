"""The check whether a descriptor is still the probe's: no thread of the program can run between check and use."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputui.probe.guards.descriptors import Descriptor, NotOursError, close_file, open_file
from gputui.probe.guards.probe_thread import Waker
from tests.hanging import wait_until


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


@contextmanager
def no_switches() -> Iterator[Callable[[], int]]:
    """Yields how often another thread has run, which from now on it does only when this one releases the GIL."""
    turns, is_over = 0, False

    def count() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            os.sched_yield()  # releases the interpreter's lock

    thread, interval_s = threading.Thread(target=count), sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000.0)
        wait_until(lambda: turns > 0)
        yield lambda: turns
    finally:
        is_over = True
        sys.setswitchinterval(interval_s)
        thread.join()


def test_no_other_thread_runs_during_the_check(pair: tuple[socket.socket, socket.socket]) -> None:
    descriptor = Descriptor(pair[0])
    with no_switches() as turns:
        before = turns()
        answers = {descriptor.is_ours for _ in range(1000)}
        assert turns() == before
    assert answers == {True}


def test_no_other_thread_runs_before_a_file_is_closed() -> None:
    numbers = [open_file("/proc/self/status") for _ in range(100)]
    with no_switches() as turns:
        before = turns()
        for number in numbers:
            close_file(number)
        assert turns() == before
    assert not [number for number in numbers if Path(f"/proc/self/fd/{number}").exists()]


def test_a_file_of_the_programs_that_has_got_the_number_stays_open() -> None:
    number = open_file("/proc/self/status")
    os.close(number)
    with Path(os.devnull).open() as file:
        assert file.fileno() == number
        close_file(number)
        assert file.read() == ""


def closed(pair: tuple[socket.socket, socket.socket]) -> None:
    os.close(pair[0].fileno())


def another_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    os.dup2(pair[1].fileno(), pair[0].fileno())


def a_file(pair: tuple[socket.socket, socket.socket]) -> None:
    with Path(os.devnull).open() as file:
        os.dup2(file.fileno(), pair[0].fileno())


def test_no_other_thread_runs_before_a_descriptor_is_closed() -> None:
    pairs = [socket.socketpair() for _ in range(100)]
    descriptors, numbers = [Descriptor(near) for near, _ in pairs], [near.fileno() for near, _ in pairs]
    with no_switches() as turns:
        before = turns()
        for descriptor in descriptors:
            descriptor.close()
        assert turns() == before
    assert not [number for number in numbers if Path(f"/proc/self/fd/{number}").exists()]
    assert {near.fileno() for near, _ in pairs} == {-1}
    for _, far in pairs:
        far.close()


@pytest.mark.parametrize("change", [closed, another_socket, a_file])
def test_a_descriptor_that_the_program_replaced_is_not_ours(pair: tuple[socket.socket, socket.socket], change) -> None:
    number, descriptor = pair[0].fileno(), Descriptor(pair[0])
    change(pair)
    with pytest.raises(NotOursError):
        descriptor.check()
    descriptor.close()
    if change is not closed:
        os.close(number)  # fails if descriptor.close() closed it


def test_a_waker_can_be_woken_many_times_before_it_is_cleared() -> None:
    waker = Waker()
    assert all(waker.wake() for _ in range(10_000))
    waker.clear()
    waker.close()
    assert not waker.wake()
