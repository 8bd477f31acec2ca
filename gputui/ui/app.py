"""The application: it holds the newest snapshot and the user's view, and the screens draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.reactive import var
from textual.screen import Screen

from gputui.errors import GputuiError
from gputui.model.history import History
from gputui.model.process import Identity, Process
from gputui.model.reading import value_of
from gputui.model.signals import NUMBERS, SIGNALS
from gputui.model.snapshot import NOTHING_YET, Snapshot
from gputui.sampler import Machine, Sampler
from gputui.settings import Settings, keymap
from gputui.ui.attach.targets import OpenFeed, no_feed
from gputui.ui.attaching import AttachingApp
from gputui.ui.drawing.appearance import taste_of
from gputui.ui.drawing.line import printable
from gputui.ui.drawing.process_rows import View
from gputui.ui.drawing.status import MonitorState
from gputui.ui.graph_history import record
from gputui.ui.key_names import is_key
from gputui.ui.messages import SnapshotTaken
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.screens.confirm import Confirm
from gputui.ui.screens.help import HelpScreen, bindings_of, owners
from gputui.ui.screens.menu import Menu
from gputui.ui.screens.overview import Overview
from gputui.ui.themes import THEMES

INTERVALS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


KILL_WARNING = "It ends at once: nothing is saved. SIGTERM lets a trainer write its checkpoint."


class GputuiApp(AttachingApp):
    """The monitor: `snapshot` is the newest one, `view` how the user wants the process list."""

    TITLE = "gputui"
    CSS_PATH = "styles.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    SCREENS: ClassVar[dict[str, Callable[[], Screen[None]]]] = {"overview": Overview}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help", tooltip="every key"),
        Binding(
            "q,f10",
            "quit",
            "Quit",
            key_display="q",
            priority=False,
            id="app.quit",
            tooltip="quit; the terminal is left as it was found",
        ),
        Binding("p", "pause", "Pause", id="app.pause", tooltip="stop reading; again: go on"),
        Binding(
            "plus,equals_sign",
            "interval(1)",
            "Slower",
            key_display="+",
            show=False,
            id="app.slower",
            tooltip="a longer interval",
        ),
        Binding(
            "minus",
            "interval(-1)",
            "Faster",
            key_display="-",
            show=False,
            id="app.faster",
            tooltip="a shorter interval",
        ),
        Binding("f5", "refresh_now", "Refresh now", show=False, id="app.refresh", tooltip="look now"),
        Binding(
            "ctrl+l",
            "repaint",
            "Repaint the terminal",
            show=False,
            id="app.repaint",
            tooltip="send every cell again, for a terminal that was written over",
        ),
        Binding(
            "D",
            "demo",
            "Demonstration",
            show=False,
            id="app.demo",
            tooltip="look at the demonstration instead of this machine",
        ),
        Binding("tab", "focus_next", "Next part", show=False, id="app.next", tooltip="the next part of the screen"),
        Binding(
            "shift+tab",
            "focus_previous",
            "Previous part",
            show=False,
            id="app.previous",
            tooltip="the previous part of the screen",
        ),
        Binding(
            "ctrl+z",
            "suspend_process",
            "Suspend",
            show=False,
            id="app.suspend",
            tooltip="suspend to the shell; fg comes back",
        ),
        Binding("ctrl+c", "quit", "Quit", show=False, id="app.interrupt", tooltip="quit", priority=True),
    ]

    snapshot: var[Snapshot] = var(NOTHING_YET)
    state: var[MonitorState] = var(MonitorState())

    def __init__(
        self,
        settings: Settings,
        machine: Machine,
        demo: Callable[[], Machine],
        first: Snapshot = NOTHING_YET,
        open_feed: Callable[[Callable[[], Snapshot]], OpenFeed] = lambda _snapshot: no_feed,
    ) -> None:
        """`first` is a snapshot taken before there was an application, shown until the sampler has the next.

        `open_feed` gets the way to the newest snapshot and returns how to attach to a process.
        """
        super().__init__(open_feed(lambda: self.snapshot), is_ascii=settings.ascii)
        self.settings = settings
        self.appearance = taste_of(settings)
        self.view = View(order=settings.sort, is_reversed=settings.reverse)
        self.history = History()
        self.keymap = keymap(settings, action_ids(), is_key)
        self._demo = demo
        self._machine = machine
        self._sampler = Sampler(machine, self._deliver, settings.interval_s)
        if first is not NOTHING_YET:
            record(self.history, first)
            self.set_reactive(GputuiApp.snapshot, first)
        self.set_reactive(GputuiApp.state, MonitorState(is_readonly=settings.readonly))
        self.animation_level = "none"

    def on_mount(self) -> None:
        """Dress, remap keys, begin to look."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "terminal" if self.no_color else self.settings.theme
        if self.keymap:
            self.set_keymap(self.keymap)
        self.app_suspend_signal.subscribe(self, lambda _: self._sampler.set_paused(True))
        self.app_resume_signal.subscribe(self, lambda _: self._resumed())
        self.push_screen("overview")
        self._sampler.start()
        self.attach(*self.first_pids)
        for sentence in self.first_words:
            self.say(sentence, is_error=False)

    def on_unmount(self) -> None:
        """No more looks; one that hangs in the driver is not waited for."""
        self._sampler.stop()
        self.stop_attaching()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that a key has on the screen below the palette, and two that have none."""
        bound = {active.binding.action: active for active in screen.active_bindings.values() if active.binding.id}
        for action, active in bound.items():
            words = active.tooltip or active.binding.description
            help_text = f"{words} ({self.get_key_display(active.binding)})"
            yield SystemCommand(active.binding.description, help_text, partial(self.run_action, action, active.node))
        yield SystemCommand("Theme", "other colours, for now", self.action_change_theme)
        yield SystemCommand("Screenshot", "this screen as an SVG file", self.deliver_screenshot)

    def _deliver(self, snapshot: Snapshot) -> None:
        self.post_message(SnapshotTaken(snapshot))

    def on_snapshot_taken(self, message: SnapshotTaken) -> None:
        """Keep it, and let the screen on top draw it."""
        snapshot = message.snapshot
        if snapshot.is_demo != self.snapshot.is_demo:
            self.history = History()
        record(self.history, snapshot)
        self.snapshot = snapshot
        self.attend()
        self._update_screen()

    def _update_screen(self) -> None:
        screen = self.on_top(MonitorScreen)
        if screen and screen.is_mounted:
            screen.update_from_monitor()

    def attend(self) -> None:
        """Tell the sampler what the screen on top looks at."""
        screen = self.on_top(MonitorScreen)
        if screen:
            self._sampler.set_attention(screen.attention())

    def say(self, sentence: str, *, is_error: bool = True) -> None:
        """A passing notice."""
        self.notify(sentence, severity="error" if is_error else "information", markup=False)

    def set_tagged(self, count: int) -> None:
        """So many processes are tagged."""
        self.state = self.state._replace(tagged=count)

    def action_help(self) -> None:
        """Every key."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_pause(self) -> None:
        """Stop and go on reading."""
        self.state = self.state._replace(is_paused=not self.state.is_paused)
        self._sampler.set_paused(self.state.is_paused)
        self._update_screen()

    def action_interval(self, steps: int) -> None:
        """A longer or shorter interval."""
        now_s = self.snapshot.interval_s
        beyond = [interval_s for interval_s in INTERVALS_S if (interval_s - now_s) * steps > 0]
        if not beyond:
            return
        next_s = min(beyond, key=lambda interval_s: abs(interval_s - now_s))
        self.snapshot = self.snapshot._replace(interval_s=next_s)
        self._sampler.set_interval(next_s)
        self._update_screen()

    def action_refresh_now(self) -> None:
        """Look now."""
        self._sampler.refresh()

    def action_demo(self) -> None:
        """Look at the demonstration instead of the machine."""
        self._machine = self._demo()
        self._sampler.replace(self._machine)

    def confirm_signal(self, name: str, targets: tuple[Process, ...]) -> None:
        """Ask whether to send a signal to processes, and send it."""
        if not targets:
            self.say("No process is under the cursor or tagged.")
            return
        subjects = [
            printable(f"{process.pid}  {value_of(process.user) or ''}  {value_of(process.command) or ''}")
            for process in targets
        ]
        whom = "this process" if len(targets) == 1 else f"these {len(targets)} processes"
        identities = [process.identity for process in targets]

        def answered(is_sure: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if is_sure:
                self._send(name, identities)

        warning = KILL_WARNING if name == "SIGKILL" else ""
        self.push_screen(Confirm(f"Send {name} to {whom}?", subjects, f"Send {name}", warning), answered)

    def choose_signal(self, targets: tuple[Process, ...]) -> None:
        """Ask for a signal, then whether to send it."""
        choices = [("", f"{name:<8} {meaning}", name) for _, name, meaning in SIGNALS]

        def chosen(name: str | None) -> None:
            if name:
                self.confirm_signal(name, targets)

        if targets:
            self.push_screen(Menu("Which signal?", choices), chosen)

    def _send(self, name: str, identities: list[Identity]) -> None:
        sent = sum(self._is_sent(name, identity) for identity in identities)
        if sent:
            self.say(f"{name} sent to {sent} process{'es' if sent > 1 else ''}.", is_error=False)
        self._sampler.refresh()

    def _is_sent(self, name: str, identity: Identity) -> bool:
        try:
            self._machine.send_signal(identity, NUMBERS[name])
        except GputuiError as error:
            self.say(str(error))
            return False
        return True

    def _resumed(self) -> None:
        self.forget_screen()
        self._sampler.set_paused(self.state.is_paused)


def action_ids() -> list[str]:
    """The names of all actions whose keys can be changed."""
    return sorted({binding.id for node in owners(GputuiApp) for binding in bindings_of(node) if binding.id})
