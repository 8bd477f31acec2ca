"""Actions in the attached process: a menu, and a confirmation before each action."""

from __future__ import annotations

from collections.abc import Callable

from gputui import environment
from gputui.explain.moment.actions import ACTIONS
from gputui.model.attached.target import ActionName
from gputui.ui.attach.targets import ActionFeed, Target
from gputui.ui.dialogs.confirm import Confirm
from gputui.ui.dialogs.menu import Menu
from gputui.ui.screens.base import MonitorScreen

SCAN = ("s", "scan: look at every Python object", "scan")
"""It changes nothing in the program, so it needs no question."""

NONE_TAKEN = (
    f"This process takes no actions: {environment.PROBE_ACTS} is 0 in its environment, "
    "or its probe belongs to an older gputui. Restart the program without that variable, or with this gputui."
)


def can_run_actions(target: Target | None) -> bool:
    """Whether actions can run: not in a recording, nor once the process has ended."""
    latest = target.timeline.latest if target else None
    return target is not None and latest is not None and not latest.ended and isinstance(target.feed, ActionFeed)


def choose_action(screen: MonitorScreen, target: Target, scan: Callable[[], None]) -> None:
    """Ask which action to run in a process; `scan` needs no confirmation."""
    if not target.actions:
        screen.monitor.say(NONE_TAKEN)
        return
    choices = [SCAN, *((ACTIONS[name].letter, ACTIONS[name].title, name.value) for name in target.actions)]

    def chosen(choice: str | None) -> None:
        name = (choice or "").removeprefix("-")  # a menu returns this for a capital letter
        if name == "scan":
            scan()
        elif name:
            confirm_action(screen, target, ActionName(name))

    screen.app.push_screen(Menu(f"In process {target.feed.pid}:", choices), chosen)


def confirm_action(screen: MonitorScreen, target: Target, name: ActionName) -> None:
    """Ask whether to run an action in a process, and run it if the answer is yes."""
    if not target.actions:
        screen.monitor.say(NONE_TAKEN)
        return
    action, moment = ACTIONS[name], target.timeline.latest
    question = action.question.format(target.feed.pid)
    predictions = action.predict(moment) if moment else []

    def answered(is_sure: bool | None) -> None:  # noqa: FBT001 - Textual's callback
        if not is_sure:
            return
        if name in target.actions and isinstance(target.feed, ActionFeed):
            target.feed.run_action(name)
        else:
            screen.monitor.say(f"Process {target.feed.pid} no longer takes this action: nothing was done.")

    screen.app.push_screen(Confirm(question, predictions, action.verb, action.warning, wraps=True), answered)
