"""Users' names from a directory that takes its time: numbers first, names when they come."""

from __future__ import annotations

import os
import pwd
import subprocess
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gputui.sources import procfs
from gputui.sources.nvml import NvmlSource
from gputui.sources.processes import ProcessSource, descriptions
from gputui.sources.procfs import UserNames
from tests.attach.children import LIMIT_S, wait_until
from tests.conftest import FakeGpus


class Directory:
    """A directory that answers once it is told to, and counts what it is asked."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked: list[int] = []

    def getpwuid(self, uid: int) -> SimpleNamespace:
        self.asked.append(uid)
        self.answers.wait(LIMIT_S)
        if uid == 404:
            raise KeyError(uid)
        return SimpleNamespace(pw_name=f"user{uid}")


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    directory = Directory()
    monkeypatch.setattr(pwd, "getpwuid", directory.getpwuid)
    yield directory
    directory.answers.set()


def test_names_are_numbers_until_they_come_and_are_asked_for_once(directory: Directory) -> None:
    names = UserNames(patience_s=0.0)
    assert [names(uid) for uid in (7, 404, 7)] == ["7", "404", "7"]
    directory.answers.set()
    wait_until(lambda: names(7) == "user7", "the name")
    assert (names(404), sorted(directory.asked)) == ("404", [7, 404])


def test_all_names_together_are_waited_for_once(directory: Directory) -> None:
    names = UserNames(patience_s=0.1)
    assert names(1) == "1"
    assert names.patience_s <= 0.0


def test_a_directory_that_answers_is_waited_for(directory: Directory) -> None:
    directory.answers.set()
    assert UserNames(patience_s=LIMIT_S)(7) == "user7"


def test_a_look_shows_the_number_and_the_next_one_the_name(
    directory: Directory, fake_gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = UserNames(patience_s=0.0)
    monkeypatch.setattr(procfs, "user_name", names)
    monkeypatch.setattr(descriptions, "user_name", names)
    uid = os.geteuid()
    nvml, source = NvmlSource(), ProcessSource()
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            fake_gpus.process(process.pid, {0: 300})
            assert [one.user for one in source.read(nvml.read()).processes] == [str(uid)]
            directory.answers.set()
            wait_until(lambda: names(uid) != str(uid), "the name")
            assert [one.user for one in source.read(nvml.read()).processes] == [f"user{uid}"]
        finally:
            process.kill()
            nvml.close()
