"""The thread that writes: what a probe sends and no file can hold ends the recording with a sentence."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from gputui.model.attached.target import Mark
from gputui.protocol import frames
from gputui.sources.files.recording import chunks
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.recorder import FileRecorder
from gputui.sources.probe.client import ProbeClient
from tests.explain.moments import GREETING
from tests.hanging import HANGS_S, wait_until

HELLO = {"type": "hello", "protocol": frames.VERSION}


class Heard:
    """A viewer that records what `say` sends to it as a probe does."""

    def __init__(self, recorder: FileRecorder) -> None:
        near, self._far = socket.socketpair()
        self.say(HELLO)
        self.say({"type": "greeting", **asdict(GREETING)})
        self._client = ProbeClient(near, GREETING.pid, answer_within_s=HANGS_S)
        recorder.listen_to(self._client)

    def say(self, *messages: dict[str, object]) -> None:
        for message in messages:
            self._far.sendall(frames.encode(message))

    def hear(self, count: int) -> None:
        for _ in range(count):
            assert self._client.receive(HANGS_S)

    def close(self) -> None:
        self._client.close()
        self._far.close()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[FileRecorder]:
    made = FileRecorder(str(tmp_path / "job"))
    yield made
    made.close()


@pytest.fixture
def heard(recorder: FileRecorder) -> Iterator[Heard]:
    made = Heard(recorder)
    yield made
    made.close()


def mark(label: str, **more: object) -> dict[str, object]:
    return {"type": "mark", "time": 1.0, "label": label, **more}


def labels_in(path: Path) -> list[str]:
    contents = [record.content for record in Recording(path).records()]
    return [content.label for content in contents if isinstance(content, Mark)]


def test_a_number_that_no_file_can_hold_ends_the_recording_with_a_sentence(
    recorder: FileRecorder, heard: Heard, tmp_path: Path
) -> None:
    """It stands where the viewer does not read it."""
    heard.say(mark("first"), mark("second", unread=float("nan")))
    heard.hear(2)
    wait_until(lambda: recorder.problem)
    assert recorder.problem == (
        "The recording has stopped: the program's probe sent what a recording cannot hold. "
        "What was recorded so far is kept."
    )
    assert not recorder.is_recording
    assert labels_in(tmp_path / "job") == ["first"]


def test_messages_that_are_too_large_together_are_kept_one_by_one(
    recorder: FileRecorder, heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAX_CONTENT_BYTES", 5000)
    heard.say(*(mark(f"{number}" * 3000) for number in range(5)))
    heard.hear(5)
    recorder.close()
    assert not recorder.problem
    assert [label[0] for label in labels_in(tmp_path / "job")] == list("01234")
