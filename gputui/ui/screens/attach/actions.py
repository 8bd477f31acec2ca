"""What can be done in the attached process: a menu, a question before each action, and the line that tells of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui.model.moment import TargetMoment
from gputui.model.target import ActionName
from gputui.ui.drawing.attach.actions import draw_action, draw_prediction
from gputui.ui.screens.confirm import Confirm
from gputui.ui.screens.menu import Menu
from gputui.ui.targets import ActionFeed, Target
from gputui.ui.widgets.painted import Painted

if TYPE_CHECKING:
    from gputui.ui.screens.attach.base import AttachScreen

SCAN = ("s", "scan: look at every Python object", "scan")
"""The one action that changes nothing, and asks nothing."""

NONE_TAKEN = (
    "This process takes no actions: GPUTUI_PROBE_ACTS is 0 in its environment, or its probe is of an older gputui."
)


@dataclass(frozen=True, slots=True)
class ActionWords:
    """An action's letter and words in the menu, its question (of a PID), the verb on the button, and a warning.

    `facts` makes lines out of the moment: what is predicted.
    """

    letter: str
    words: str
    question: str
    verb: str
    warning: str
    facts: Callable[[TargetMoment], list[str]] = lambda _moment: []


ACTIONS = {
    ActionName.COLLECT: ActionWords(
        "g",
        "gc.collect(): a full collection of Python's garbage",
        "Run gc.collect() in process {}?",
        "Collect",
        "The program's main thread stands still for it, and finalizers of what it finds run there. What it frees"
        " cannot be predicted.",
    ),
    ActionName.EMPTY_CACHE: ActionWords(
        "e",
        "torch.cuda.empty_cache(): give cached memory back to the driver",
        "Run torch.cuda.empty_cache() in process {}?",
        "Empty the cache",
        "It runs in the program's main thread and waits for work on the device. The steps after it are slower: they"
        " ask the driver for memory again.",
        draw_prediction,
    ),
    ActionName.HISTORY_ON: ActionWords(
        "h",
        "memory history on: which line asks for each new block",
        "Have process {} record its memory history?",
        "Switch on",
        "Each allocation then takes about 2 us longer, and each live block keeps the Python stack that asked for it."
        " No list of events is kept. It ends when the last viewer leaves.",
    ),
    ActionName.HISTORY_OFF: ActionWords(
        "h",
        "memory history off",
        "Have process {} no longer record its memory history?",
        "Switch off",
        "New blocks then carry no line any more; those that have one keep it.",
    ),
}


class ActionLine(Painted):
    """The lines below the target's: the action under way, or what came of the last one until it is put away."""

    def set_target(self, target: Target | None, width: int) -> None:
        """Tell of this process, in as many lines as that takes."""
        moment = target.timeline.latest if target else None
        lines = draw_action(moment.pending_action, target.outcome, width) if target and moment else []
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show(tuple(lines))


def can_run_actions(target: Target | None) -> bool:
    """Whether there is a process to do something in: not in a recording, nor once it has ended."""
    latest = target.timeline.latest if target else None
    return target is not None and latest is not None and not latest.ended and isinstance(target.feed, ActionFeed)


def choose_action(screen: AttachScreen) -> None:
    """Ask what to do in the process on screen."""
    target = screen.target
    if target is None:
        return
    if not target.actions:
        screen.monitor.say(NONE_TAKEN)
        return
    choices = [SCAN, *((ACTIONS[name].letter, ACTIONS[name].words, name.value) for name in target.actions)]

    def chosen(choice: str | None) -> None:
        name = (choice or "").removeprefix("-")  # as a menu tells of capital letters
        if name == "scan":
            screen.action_scan()
        elif name:
            _confirm(screen, target, ActionName(name))

    screen.monitor.push_screen(Menu(f"In process {target.feed.pid}:", choices), chosen)


def _confirm(screen: AttachScreen, target: Target, name: ActionName) -> None:
    words, moment = ACTIONS[name], target.timeline.latest
    question = words.question.format(target.feed.pid)
    facts = words.facts(moment) if moment else []

    def answered(is_sure: bool | None) -> None:  # noqa: FBT001 - Textual's callback
        if not is_sure:
            return
        if name in target.actions and isinstance(target.feed, ActionFeed):
            target.feed.run_action(name)
        else:
            screen.monitor.say(f"Process {target.feed.pid} does not take that any more: nothing was done.")

    screen.monitor.push_screen(Confirm(question, facts, words.verb, words.warning), answered)
