"""What the attach screens share: the process and device they show, the keys between them, and jumps."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.widgets import Input

from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.ui.drawing.attach.head import draw_ending, draw_head
from gputui.ui.drawing.attach.playback import draw_playback
from gputui.ui.drawing.line import Line, paragraph, spread
from gputui.ui.screens.attach.acts import ActLine, can_act, choose_act
from gputui.ui.screens.attach.replaying import REPLAY_ACTIONS, REPLAY_BINDINGS, Replaying
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.targets import Player, Target
from gputui.ui.widgets.painted import Painted

SCREENS = Binding.Group("Screens")
LOOK_KEY = "u"
"""Where the settings do not change it."""
ON_REQUEST = re.compile("on request( only)?")
"""How sentences of the probe, and remedies, speak of looks that somebody asks for: they know of no keys."""


class TargetLine(Painted):
    """The line below the status: which process, which device, which moment."""


ASKING_ACTIONS = frozenset({"mark", "look", "scan"})
"""What is asked of the program itself."""


class EndingLines(Painted):
    """The lines below that, once the process has ended: how."""

    def set_lines(self, lines: list[Line]) -> None:
        """Show these lines and take as much height."""
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show(tuple(lines))


class AttachScreen(Replaying, MonitorScreen):
    """A screen about the process and device that are looked at; drawn anew with each moment while it is on top."""

    NAME: ClassVar[str] = ""
    """The screen's name in `ATTACH_SCREENS` (gputui.ui.screens.attach.table)."""

    PARTS_WITH_KEYS: ClassVar[tuple[type[DOMNode], ...]] = ()
    """Widgets of this screen alone that declare keys, for the help."""

    LAST_KEYS: ClassVar[frozenset[str]] = frozenset({"attach.mark", "attach.back"})

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "1", "show('memory')", "Memory", id="attach.memory", group=SCREENS, tooltip="one bar of all, and over time"
        ),
        Binding("2", "show('why')", "Why", id="attach.why", group=SCREENS, tooltip="what to know, and what to do"),
        Binding("3", "show('map')", "Map", id="attach.map", group=SCREENS, tooltip="segments and blocks, drawn"),
        Binding("4", "show('tensors')", "Tensors", id="attach.tensors", group=SCREENS, tooltip="whose memory it is"),
        Binding(
            "5",
            "show('changes')",
            "Changes",
            id="attach.changes",
            group=SCREENS,
            tooltip="what came and went between marks",
        ),
        Binding("6", "show('ranks')", "Ranks", id="attach.ranks", group=SCREENS, tooltip="all attached processes"),
        Binding("d", "next_device", "Device", show=False, id="attach.device", tooltip="the process's next device"),
        Binding(
            "tab", "next_target(1)", "Next rank", show=False, id="attach.next", tooltip="the next attached process"
        ),
        Binding(
            "shift+tab",
            "next_target(-1)",
            "Previous rank",
            show=False,
            id="attach.previous",
            tooltip="the attached process before",
        ),
        Binding("m", "mark", "Mark", id="attach.mark", tooltip="name this moment, to compare with later"),
        Binding(
            LOOK_KEY, "look", "Look now", show=False, id="attach.look", tooltip="look at its memory now, at any cost"
        ),
        Binding("s", "scan", "Scan", show=False, id="attach.scan", tooltip="look at every Python object, once"),
        Binding("x", "act", "Act", show=False, id="acts.menu", tooltip="do something in the program, after a question"),
        Binding("escape,backspace", "leave", "Monitor", id="attach.back", tooltip="to the monitor"),
        *REPLAY_BINDINGS,
    ]

    @property
    def player(self) -> Player | None:
        """Who plays the process on screen, where it is of a recording."""
        return self.target.player if self.target else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Of a recording nothing can be asked, and only a recording can be played; typed text is no key."""
        if action in REPLAY_ACTIONS:
            return self.player is not None and not isinstance(self.focused, Input)
        if action in ASKING_ACTIONS:
            return self.player is None
        if action == "act":  # not where the user asked for none, nor where there is no program to do it in
            return not self.monitor.state.is_readonly and can_act(self.target)
        return super().check_action(action, parameters)

    def compose(self) -> ComposeResult:
        """Status, target, how it ended, what was done in it, body, keys."""
        status, *rest = super().compose()
        yield status
        yield TargetLine(id="target")
        yield EndingLines(id="ending")
        yield ActLine(id="act-line")
        yield from rest

    def on_resize(self) -> None:
        """Lines that were cut to the old width are drawn for the new one."""
        self.call_after_refresh(self.update_from_monitor)

    @property
    def target(self) -> Target | None:
        """The attached process on screen."""
        return self.monitor.targets.current

    @property
    def moment(self) -> TargetMoment | None:
        """Its moment: the newest, or the one that the cursor went back to."""
        return self.target.moment if self.target else None

    @property
    def device(self) -> DeviceMoment | None:
        """The device that is looked at."""
        return self.target.device_moment if self.target else None

    def draw_status(self) -> None:
        """The lines above the body: the status, then the target."""
        super().draw_status()
        target, moment = self.target, self.moment
        width = self.size.width
        if width:
            self.query_one(ActLine).set_target(target, width)
        if target is None or not width:
            return
        lines: list[Line] = []
        if moment is None:
            head = spread([], draw_playback(target.player.playback) if target.player else [], width)
        else:
            lines = draw_ending(moment, width)
            head = draw_head(
                moment,
                self.device,
                width,
                is_past=target.cursor is not None,
                is_recording=self.monitor.is_recording() and target.player is None,
                playback=target.player.playback if target.player else None,
            )
        self.query_one(TargetLine).show((head,))
        self.query_one(EndingLines).set_lines(lines)

    def jump(self, address: int) -> None:
        """Put the cursor on what lies at an address; screens without addresses do nothing."""

    def nothing_yet(self, width: int) -> list[Line]:
        """What stands in the body where there is nothing to draw: why."""
        moment = self.moment
        if moment is None:
            return [((" Waiting for the probe ...", "dim"),)]
        return self.problems(width) or paragraph("The process holds no memory on a device.", width, "fair")

    def problems(self, width: int) -> list[Line]:
        """What could not be read, in sentences."""
        found = self.moment.problems if self.moment else ()
        return [line for problem in found for line in paragraph(self.with_key(problem), width, "fair")]

    def with_key(self, sentence: str) -> str:
        """A sentence with the key that asks for a look, where it speaks of that; a recording has none."""
        if self.player:
            return sentence
        key = self.monitor.keymap.get("attach.look", LOOK_KEY).partition(",")[0]
        shown = self.app.get_key_display(Binding(key, "", ""))
        return ON_REQUEST.sub(lambda said: f"{said[0]} (key {shown})", sentence)

    def action_show(self, name: str) -> None:
        """Go to another of the screens."""
        self.monitor.show_attach_screen(name)

    def action_next_device(self) -> None:
        """The process's next device."""
        if self.target:
            self.target.next_device()
        self.update_from_monitor()

    def action_next_target(self, steps: int) -> None:
        """The next attached process."""
        self.monitor.targets.step(steps)
        self.update_from_monitor()

    def action_mark(self) -> None:
        """Name this moment; the probe tells every viewer."""
        if self.target and self.moment and not self.moment.ended:
            label = f"mark {len(self.target.marks) + 1}"
            self.target.feed.mark(label)
            self.monitor.say(f"{label} is set.", is_error=False)

    def action_look(self) -> None:
        """Look now, also at what takes too long for a look that nobody asks for; the target line says what it cost."""
        if self.target:
            self.target.feed.look("walk")

    def action_scan(self) -> None:
        """Look at every Python object; the target line says what it cost."""
        if self.target:
            self.target.feed.look("scan")

    def action_act(self) -> None:
        """Ask what to do in the program, and whether to do it."""
        choose_act(self)

    def action_leave(self) -> None:
        """Put what came of an act away, then back to the screen below; under a replay there is none."""
        if self.target and self.target.outcome:
            self.target.read_outcome = self.target.outcome
            self.draw_status()
        elif self.monitor.is_replay:
            self.monitor.exit()
        else:
            self.dismiss()
