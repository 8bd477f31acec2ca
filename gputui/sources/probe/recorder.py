"""What feeds report to a recording: the messages of a probe, and what the viewer itself reads about the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputui.model.attached.moment import Surroundings
    from gputui.sources.probe.client import ProbeClient


class Recorder:
    """Records nothing: feeds use it without --record. Methods can be called from any thread."""

    problem = ""
    """Why the recording has stopped, "" while it goes on."""

    is_recording = False

    def listen_to(self, client: ProbeClient) -> None:
        """Record this probe's greeting and its messages from now on."""

    def note_surroundings(self, pid: int, surroundings: Surroundings) -> None:
        """Record what the viewer reads about a process, which with all records before makes a moment of a replay."""

    def close(self) -> None:
        """Write what is left and end."""


NO_RECORDER = Recorder()
