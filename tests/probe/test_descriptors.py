"""The check whether a descriptor is still the probe's: no thread of the program can run between check and use."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.probe.descriptors import Descriptor, NotOursError
from gputui.probe.probe_thread import Waker


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_no_other_thread_runs_during_the_check(pair: tuple[socket.socket, socket.socket]) -> None:
    descriptor, turns, is_over = Descriptor(pair[0]), 0, False

    def count() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            time.sleep(0)

    thread, interval_s = threading.Thread(target=count), sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000.0)  # from now on a thread runs only when another releases the GIL
        time.sleep(0.1)
        before = turns
        answers = {descriptor.is_ours for _ in range(1000)}
        assert turns == before
    finally:
        is_over = True
        sys.setswitchinterval(interval_s)
        thread.join()
    assert answers == {True}
    assert before > 0


def closed(pair: tuple[socket.socket, socket.socket]) -> None:
    os.close(pair[0].fileno())


def another_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    os.dup2(pair[1].fileno(), pair[0].fileno())


def a_file(pair: tuple[socket.socket, socket.socket]) -> None:
    with Path(os.devnull).open() as file:
        os.dup2(file.fileno(), pair[0].fileno())


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
