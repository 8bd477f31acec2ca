"""The machine of a recording: its name and its time; nothing else was recorded."""

from __future__ import annotations

from gputui.model.host import Host
from gputui.model.process import Identity
from gputui.model.snapshot import Attention, Snapshot
from gputui.sources.recording.player import Player
from gputui.sources.signals import SignalRefused


class RecordedMachine:
    """The machine that the status line of a replay shows."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._number = 0

    def look(self, attention: Attention, interval_s: float) -> Snapshot:  # noqa: ARG002 - as for a live machine
        """The recorded time, on the recorded host."""
        self._number += 1
        recording = self._player.recording
        return Snapshot(
            time=recording.begins + self._player.playback.position_s,
            number=self._number,
            interval_s=interval_s,
            host=Host(hostname=recording.about.hostname),
        )

    def send_signal(self, identity: Identity, number: int) -> None:
        """Always refused: there is no process to send it to."""
        cause = f"This is a recording: signal {number} was not sent to process {identity.pid}."
        raise SignalRefused(cause)

    def close(self) -> None:
        """Nothing to release."""
