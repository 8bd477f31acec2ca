"""The keys with which a recording is played on the attach screens."""

from __future__ import annotations

from abc import abstractmethod

from textual.binding import Binding, BindingType

from gputui.ui.attach.targets import Player

SEEK_S = 10.0

REPLAY_BINDINGS: list[BindingType] = [
    # With priority over lists and pages, which scroll with Space.
    Binding("space,p", "play", "Play", priority=True, id="replay.play", tooltip="play a recording, or pause"),
    Binding(
        "right_square_bracket",
        "seek(1)",
        "+10 s",
        key_display="]",
        id="replay.forward",
        tooltip="10 seconds forward",
    ),
    Binding("left_square_bracket", "seek(-1)", "-10 s", key_display="[", id="replay.back", tooltip="10 seconds back"),
    Binding(
        "right_curly_bracket",
        "seek_mark(1)",
        "Next mark",
        show=False,
        key_display="}",
        id="replay.next-mark",
        tooltip="to the next mark, or the end",
    ),
    Binding(
        "left_curly_bracket",
        "seek_mark(-1)",
        "Mark before",
        show=False,
        key_display="{",
        id="replay.previous-mark",
        tooltip="to the previous mark, or the beginning",
    ),
    Binding(
        "right_parenthesis",
        "seek_end(1)",
        "End",
        show=False,
        key_display=")",
        id="replay.end",
        tooltip="to the end of the recording",
    ),
    Binding(
        "left_parenthesis",
        "seek_end(-1)",
        "Beginning",
        show=False,
        key_display="(",
        id="replay.begin",
        tooltip="to the beginning of the recording",
    ),
    Binding("greater_than_sign", "speed(1)", "Faster", key_display=">", id="replay.faster", tooltip="twice as fast"),
    Binding("less_than_sign", "speed(-1)", "Slower", key_display="<", id="replay.slower", tooltip="half as fast"),
]

REPLAY_ACTIONS = frozenset({"play", "seek", "seek_mark", "seek_end", "speed"})


class Replaying:
    """The actions of these keys; the player answers with a moment, which redraws the screen."""

    @property
    @abstractmethod
    def player(self) -> Player | None:
        """The player of the process on screen."""

    def action_play(self) -> None:
        if self.player:
            self.player.toggle()

    def action_seek(self, steps: int) -> None:
        """Seek by this many times 10 seconds, below 0 backwards."""
        if self.player:
            self.player.seek(steps * SEEK_S)

    def action_seek_mark(self, steps: int) -> None:
        """Seek to the next mark, or the previous one."""
        if self.player:
            self.player.seek_mark(steps)

    def action_seek_end(self, direction: int) -> None:
        """Seek to the end, or the beginning."""
        if self.player:
            self.player.seek(direction * self.player.playback.length_s)

    def action_speed(self, steps: int) -> None:
        """Play twice as fast, or half as fast."""
        if self.player:
            self.player.change_speed(steps)
