"""The base of the attach screens: the process and device they show, the keys between them, and jumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from gputui.explain.answer.verdict import Verdict
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.reading import Problem, ProblemKind
from gputui.ui.attach.targets import Player, Target
from gputui.ui.drawing.attach.head import draw_action, draw_ending, draw_playback, draw_target
from gputui.ui.drawing.attach.why import VERDICT_LINES, draw_advice, draw_verdict
from gputui.ui.drawing.line import Line, paragraph, spread
from gputui.ui.screens.attach.actions import can_run_actions, choose_action
from gputui.ui.screens.attach.replaying import REPLAY_ACTIONS, REPLAY_BINDINGS, Replaying
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.widgets.painted import Notes

SCREENS = Binding.Group("Screens")
SCREEN_BINDINGS: list[BindingType] = [
    Binding(
        str(number),
        f"show('{entry.name}')",
        entry.title,
        id=f"attach.{entry.name}",
        group=SCREENS,
        tooltip=entry.tooltip,
    )
    for number, entry in enumerate(ATTACH_SCREENS.values(), 1)
]
LEAVE_WORDS = "back to the monitor; in `gputui open` and `gputui replay`, quit"
LOOK_KEY = "u"
"""The default; the settings can change it."""


ASKING_ACTIONS = frozenset({"mark", "look", "scan"})
"""Actions that ask the program for something."""


class AttachScreen(Replaying, MonitorScreen):
    """A screen about the current process and device; redrawn with every moment while it is on top."""

    NAME: ClassVar[str] = ""
    """The screen's name in `ATTACH_SCREENS`."""

    BODY_HAS_VERDICT: ClassVar[bool] = False
    """Whether the body begins with the verdict, so that it does not stand above it."""

    SHOWS_TOP: ClassVar[bool] = False
    """Whether the screen can show the top of a step in place of the present moment."""

    LAST_KEYS: ClassVar[frozenset[str]] = frozenset({"attach.mark", "actions.menu", "attach.back"})

    KEY_GROUPS: ClassVar[dict[str, str]] = {
        "attach": "Attached process",
        "actions": "Actions in the attached process",
        **{entry.name: entry.help_heading for entry in ATTACH_SCREENS.values() if entry.help_heading},
        "replay": "Playing a recording",
    }

    BINDINGS: ClassVar[list[BindingType]] = [
        *SCREEN_BINDINGS,
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
            tooltip="the previous attached process",
        ),
        Binding("v", "turn_top", "Top/now", id="attach.top", tooltip="the memory at the top of a step, or now"),
        Binding("m", "mark", "Mark", id="attach.mark", tooltip="mark the present moment, to compare with it"),
        Binding(LOOK_KEY, "look", "Look", id="attach.look", tooltip="look at its memory now"),
        Binding("s", "scan", "Scan", show=False, id="attach.scan", tooltip="look at every Python object, once"),
        Binding("x", "choose_action", "Action", id="actions.menu", tooltip="run an action, after confirmation"),
        Binding("escape,backspace", "leave", "Monitor", id="attach.back", tooltip=LEAVE_WORDS),
        *REPLAY_BINDINGS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._can_turn = False
        """Whether there is the top of a step to turn to."""

    @property
    def player(self) -> Player | None:
        """The player of the process on screen, if it comes from a recording."""
        return self.target.player if self.target else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a recording can be played, and only a live process looked at; text typed into a filter is not a key."""
        if action == "show" and self.monitor.attached.is_still:
            return ATTACH_SCREENS[str(parameters[0])].is_for_files
        if action in REPLAY_ACTIONS:
            return self.player is not None and not isinstance(self.focused, Input)
        if action in ASKING_ACTIONS:
            return self.player is None and not self.monitor.attached.is_replay
        if action == "turn_top":
            return self.SHOWS_TOP and self.target is not None and self.target.top is not None
        if action == "choose_action":  # neither with --readonly nor without a live process
            return not self.monitor.state.is_readonly and can_run_actions(self.target)
        return super().check_action(action, parameters)

    def key_words(self) -> Mapping[str, str]:
        """A replay, a file or a process on another machine has no monitor to go back to."""
        return {} if self.monitor.attached.has_monitor else {"attach.back": "Quit"}

    def compose(self) -> ComposeResult:
        """Status, target, the verdict, its last action, body, keys."""
        status, *rest = super().compose()
        yield status
        yield Notes(self._draw_target, id="target")
        yield Notes(self._draw_verdict, id="verdict")
        yield Notes(self._draw_action, id="action")
        yield from rest

    def on_resize(self) -> None:
        """Lines that were cut to the old width are drawn for the new one."""
        self.call_after_refresh(self.update_from_monitor)

    @property
    def target(self) -> Target | None:
        """The attached process on screen."""
        return self.monitor.attached.targets.current

    @property
    def moment(self) -> TargetMoment | None:
        """The target's moment: the newest or the one under the cursor; the top of a step where that is to be shown."""
        if self.target is None:
            return None
        return self.target.picture if self.SHOWS_TOP else self.target.moment

    @property
    def device(self) -> DeviceMoment | None:
        return self.target.device_in(self.moment) if self.target else None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict about the device; where most memory has no name, its sentence says what to do about that."""
        answer = self.target.answer.verdict if self.target else None
        if answer is None or not answer.nameless:
            return answer
        hint = self.with_look_key(answer.nameless) if answer.needs_look else answer.nameless
        return replace(answer, sentence=f"{answer.sentence} {hint}")

    def draw_status(self) -> None:
        """Draw the lines above the body: the status, the target, the verdict, the last action."""
        super().draw_status()
        self.query_one("#target", Notes).redraw()
        can_turn = bool(self.check_action("turn_top", ()))
        if can_turn != self._can_turn:  # the line of keys follows
            self._can_turn = can_turn
            self.refresh_bindings()
        self.query_one("#verdict", Notes).redraw()
        self.query_one("#action", Notes).redraw()

    def _draw_target(self, width: int) -> list[Line]:
        """Which process, which device, which moment; and how the process ended, once it has."""
        target, moment = self.target, self.moment
        if target is None:
            return [()]
        if moment is None:
            return [spread([], draw_playback(target.player.playback) if target.player else [], width)]
        head = draw_target(
            moment,
            self.device,
            width,
            is_past=target.cursor is not None,
            is_recording=self.monitor.attached.is_recording() and target.player is None,
            playback=target.player.playback if target.player else None,
        )
        return [head, *draw_ending(moment, width)]

    def _draw_verdict(self, width: int) -> list[Line]:
        """The answer in up to three lines and what to do, four lines in all, above whatever the screen shows."""
        if self.target is None or self.BODY_HAS_VERDICT:
            return []
        findings = self.target.answer.findings
        answer = draw_verdict(self.verdict, width, VERDICT_LINES)
        return [*answer, *draw_advice(findings, self.verdict, width, most=VERDICT_LINES + 1 - len(answer))]

    def _draw_action(self, width: int) -> list[Line]:
        """The running action, or the result of the last one until it is dismissed."""
        latest = self.target.timeline.latest if self.target else None
        return draw_action(latest.pending_action, self.target.outcome, width) if self.target and latest else []

    def jump(self, address: int) -> None:
        """Put the cursor on what is at an address; screens without addresses ignore it."""

    def nothing_yet(self, width: int) -> list[Line]:
        """Why there is nothing to draw."""
        moment = self.moment
        if moment is None:
            return [((" Waiting for the probe ...", "dim"),)]
        return self.problems(width) or paragraph(
            "PyTorch has used no GPU in this process yet: this screen fills once a tensor is on one.", width, "fair"
        )

    def problems(self, width: int) -> list[Line]:
        """What could not be read, in sentences."""
        problems = self.moment.problems if self.moment else ()
        return [line for problem in problems for line in paragraph(self._text_of(problem), width, "fair")]

    def _text_of(self, problem: Problem) -> str:
        is_on_request = problem.kind is ProblemKind.LOOK_ON_REQUEST
        return self.with_look_key(problem.text) if is_on_request else problem.text

    def with_look_key(self, text: str) -> str:
        """The text with the key that asks for a look; unchanged in a recording, which cannot be looked at."""
        if self.player or self.monitor.attached.is_replay:
            return text
        key = self.monitor.keymap.get("attach.look", LOOK_KEY).partition(",")[0]
        return f"{text} Press {self.app.get_key_display(Binding(key, '', ''))} to look now."

    def action_show(self, name: str) -> None:
        """Go to another of the screens."""
        self.monitor.show_attach_screen(name)

    def action_next_device(self) -> None:
        if self.target:
            self.target.next_device()
        self.update_from_monitor()

    def action_next_target(self, steps: int) -> None:
        self.monitor.attached.targets.step(steps)
        self.update_from_monitor()

    def action_turn_top(self) -> None:
        """Show the top of a step, or the present moment."""
        if self.target:
            self.target.prefers_top = not self.target.prefers_top
        self.update_from_monitor()

    def action_mark(self) -> None:
        """Give the program's present moment, even under a cursor in the past, a name that all viewers see."""
        if self.target and self.moment and not self.moment.ended:
            label = f"mark {len(self.target.marks) + 1}"
            self.target.feed.mark(label)
            when = "is set" if self.target.cursor is None else "is set now, not at the cursor"
            self.monitor.say(f"{label} {when}; the Changes screen compares with it.", is_error=False)

    def action_look(self) -> None:
        """Look now, including what takes too long for automatic looks; the target line shows the cost."""
        self._ask("walk")

    def action_scan(self) -> None:
        """Look at every Python object; the target line shows the cost."""
        self._ask("scan")

    def _ask(self, how: str) -> None:
        if self.target:
            self.target.asked, self.target.prefers_top = self.target.timeline.latest, False
            self.target.feed.look(how)
            self.update_from_monitor()

    def action_choose_action(self) -> None:
        """Ask which action to run in the program, and whether to run it."""
        if self.target:
            choose_action(self, self.target, self.action_scan)

    def action_leave(self) -> None:
        """Close the result of an action, or go back to the monitor; without a monitor, exit."""
        if self.target and self.target.outcome:
            self.target.read_outcome = self.target.outcome
            self.draw_status()
        elif not self.monitor.attached.has_monitor:
            self.app.exit()
        else:
            self.dismiss()
