"""The application: it holds the newest snapshot and the user's view, and the screens draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import BindingType
from textual.reactive import var
from textual.screen import Screen

from gputui.errors import GputuiError
from gputui.model.history import History
from gputui.model.machine.process import Identity
from gputui.model.machine.signals import NUMBERS
from gputui.model.machine.snapshot import NOTHING_YET, Attention, Snapshot
from gputui.sampler import Machine, Sampler
from gputui.settings import Settings, keymap
from gputui.ui.attach.attached import Attached
from gputui.ui.attach.targets import OpenFeed, no_feed
from gputui.ui.backend.terminal_app import TerminalApp
from gputui.ui.bindings import APP_BINDINGS, key_name
from gputui.ui.dialogs.confirm import Confirm
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.appearance import appearance_of
from gputui.ui.drawing.line import printable
from gputui.ui.drawing.monitor.process_rows import View
from gputui.ui.drawing.monitor.status import MonitorState
from gputui.ui.drawing.roles import STYLES_OF_CATEGORIES
from gputui.ui.intervals import neighbour
from gputui.ui.messages import HandedOver, SnapshotTaken, TimelineTaken
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.screens.findings import FindingsScreen
from gputui.ui.screens.help import HelpScreen, default_keys, scopes
from gputui.ui.screens.overview import Overview
from gputui.ui.themes import THEMES
from gputui.ui.worlds import Demonstration, World

if TYPE_CHECKING:
    from gputui.ui.monitor import Monitor


class GputuiApp(TerminalApp):
    """The monitor: `snapshot` is the newest one, `view` how the user wants the process list."""

    TITLE = "gputui"
    CSS_PATH = "styles.tcss"
    CSS = STYLES_OF_CATEGORIES
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    SCREENS: ClassVar[dict[str, Callable[[], Screen[None]]]] = {"overview": Overview}
    BINDINGS: ClassVar[list[BindingType]] = APP_BINDINGS

    snapshot: var[Snapshot] = var(NOTHING_YET)
    state: var[MonitorState] = var(MonitorState())

    def __init__(
        self,
        settings: Settings,
        machine: Machine,
        demo: Callable[[], Machine],
        first: Snapshot = NOTHING_YET,
        open_feed: Callable[[Callable[[], Snapshot]], OpenFeed] = lambda _snapshot: no_feed,
        live: Callable[[], Machine] | None = None,
    ) -> None:
        """`first` is a snapshot taken before the application existed, shown until the sampler has the next one.

        `demo` makes the demonstration; `live` makes this machine, where `machine` is the demonstration already.

        `open_feed` takes a function that returns the newest snapshot, and returns one that opens the feed of a process.
        """
        super().__init__(is_ascii=settings.ascii)
        self.settings = settings
        self.appearance = appearance_of(settings)
        self.keymap = keymap(settings, default_keys(GputuiApp), key_name, scopes(GputuiApp))
        self._open_feed = open_feed
        self._demo, self._live = demo, live
        self._world = self._new_world(machine)
        self.first_screen = "overview"
        self._kept: World | None = None
        """This machine, while the demonstration is shown."""
        self._sampler = Sampler(machine, self._deliver, settings.interval_s)
        if first is not NOTHING_YET:
            self._world.take(first)
            self.set_reactive(GputuiApp.snapshot, first)
        self.set_reactive(GputuiApp.state, self._world.state)
        self.animation_level = "none"

    def on_mount(self) -> None:
        """Set the theme and the keys, show the overview, start the sampler."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "terminal" if self.no_color else self.settings.theme
        if self.keymap:
            self.set_keymap(self.keymap)
        self.app_suspend_signal.subscribe(self, lambda _: self._sampler.set_paused(True))
        self.app_resume_signal.subscribe(self, lambda _: self._resumed())
        self.push_screen(self.first_screen)
        self._sampler.start()
        self.attached.start()

    def on_unmount(self) -> None:
        """Stop the sampler and the feeds without waiting: a call into the driver may hang."""
        self._sampler.stop()
        self.attached.stop()
        if self._kept:
            self._kept.close()

    def _new_world(self, machine: Machine) -> World:
        view = View(order=self.settings.sort, is_reversed=self.settings.reverse)
        world = World(machine, view, MonitorState(is_readonly=self.settings.readonly))
        world.attached = Attached(self, self._open_feed(lambda: world.snapshot))
        return world

    @property
    def view(self) -> View:
        """How the user wants the process list."""
        return self._world.view

    @view.setter
    def view(self, view: View) -> None:
        self._world.view = view

    @property
    def history(self) -> History:
        """The readings that graphs show."""
        return self._world.history

    @property
    def attached(self) -> Attached:
        """The attached processes."""
        return self._world.attached

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that has a key on the screen below the palette, and two that have none."""
        bound = {active.binding.action: active for active in screen.active_bindings.values() if active.binding.id}
        for action, active in bound.items():
            words = active.tooltip or active.binding.description
            help_text = f"{words} ({self.get_key_display(active.binding)})"
            yield SystemCommand(active.binding.description, help_text, partial(self.run_action, action, active.node))
        yield SystemCommand("Theme", "use other colours until gputui ends", self.action_change_theme)
        yield SystemCommand("Screenshot", "save this screen as an SVG file", self.deliver_screenshot)

    def _deliver(self, snapshot: Snapshot) -> None:
        self.post_message(SnapshotTaken(snapshot))

    def on_snapshot_taken(self, message: SnapshotTaken) -> None:
        """Keep the snapshot, and have the screen on top draw it."""
        if not self._world.take(message.snapshot):
            return
        self.snapshot = self._world.snapshot
        self.attend()
        self._update_screen(MonitorScreen)

    def on_moments_taken(self) -> None:
        """Take the moments of attached processes, and have an attach screen on top draw the newest."""
        self.attached.take_moments()
        if self._kept:
            self._kept.attached.take_moments()
        self._update_screen(AttachScreen)

    def on_timeline_taken(self, message: TimelineTaken) -> None:
        """Take the timeline of a replayed process, and have an attach screen on top draw it."""
        self.attached.take_timeline(message)
        self._update_screen(AttachScreen)

    def on_handed_over(self, message: HandedOver) -> None:
        """Hand a thread's result to whoever asked for it, and have an attach screen on top draw it."""
        message.take()
        self._update_screen(AttachScreen)

    def _update_screen(self, kind: type[MonitorScreen]) -> None:
        screen = self.on_top(kind)
        if screen and screen.is_mounted:
            screen.update_from_monitor()

    def attend(self) -> None:
        """Tell the sampler what the screen on top shows."""
        screen = self.on_top(MonitorScreen)
        if screen:
            self._sampler.set_attention(screen.attention())

    def say(self, sentence: str, *, is_error: bool = True) -> None:
        """Show a notice for a few seconds."""
        self.notify(sentence, severity="error" if is_error else "information", markup=False)

    def copy(self, what: str, text: str) -> None:
        """Copy a text to the terminal's clipboard (OSC 52), and say so; `what` names it."""
        if not text:
            self.say(f"There is no {what} to copy here.")
            return
        self.copy_to_clipboard(text)
        self.say(f"Copied the {what} to the terminal's clipboard: {printable(text)}", is_error=False)

    def ask(self, question: str, lines: Sequence[str], verb: str, then: Callable[[], None]) -> None:
        """Ask before an action, with the focus on Cancel, and do it if the answer is yes."""
        self.push_screen(
            Confirm(question, lines, verb, wraps=True), lambda is_confirmed: then() if is_confirmed else None
        )

    def set_tagged(self, count: int) -> None:
        """Show in the status line how many processes are tagged."""
        self.state = self.state._replace(tagged=count)

    def show_attach_screen(self, name: str) -> None:
        """Go to an attach screen; it takes the place of an attach screen on top."""
        if not isinstance(self.screen, AttachScreen):
            self.push_screen(ATTACH_SCREENS[name]())
        elif name != self.screen.NAME:
            self.switch_screen(ATTACH_SCREENS[name]())

    def jump_to(self, name: str, address: int) -> None:
        """Go to an attach screen, with the cursor on what is at an address."""
        self.show_attach_screen(name)

        def jump() -> None:
            if isinstance(self.screen, AttachScreen):
                self.screen.jump(address)

        self.call_after_refresh(jump)

    def action_help(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_findings(self) -> None:
        """Show what is wrong with this machine."""
        self.push_screen(FindingsScreen())

    def action_pause(self) -> None:
        """Stop reading, or resume."""
        self.state = self.state._replace(is_paused=not self.state.is_paused)
        self._sampler.set_paused(self.state.is_paused)
        self._update_screen(MonitorScreen)

    def action_interval(self, steps: int) -> None:
        """Go to the next longer interval (1) or the next shorter one (-1)."""
        next_s = neighbour(self.snapshot.interval_s, steps)
        self.snapshot = self.snapshot._replace(interval_s=next_s)
        self._sampler.set_interval(next_s)
        self._update_screen(MonitorScreen)

    def action_refresh_now(self) -> None:
        """Read everything now."""
        self._sampler.refresh()

    def action_demo(self) -> None:
        """Show the demonstration instead of this machine, or this machine again; each keeps what belongs to it."""
        here = self._world
        here.state = self.state._replace(tagged=0)
        if not here.is_demo:
            self._kept, self._world = here, self._new_world(self._demo())
        elif self._kept or self._live:
            self._world = self._kept or self._new_world(self._live())  # type: ignore[misc]
            self._kept = None
            here.close()
        else:
            return
        self.clear_notifications()
        while self.screen is not self.get_screen(self.first_screen):
            self.pop_screen()
        if self._world.snapshot is NOTHING_YET:
            self._world.take(self._world.machine.look(Attention(), self.settings.interval_s))
        self.state, self.snapshot = self._world.state, self._world.snapshot
        self._sampler.replace(self._world.machine)
        self._sampler.set_paused(self.state.is_paused)
        self._update_screen(MonitorScreen)

    def action_example(self) -> None:
        """Choose one of the recorded programs, and attach to it."""
        machine = self._world.machine
        if isinstance(machine, Demonstration):
            letters = [(chr(ord("a") + number), title, title) for number, title in enumerate(machine.examples)]
            self.push_screen(Menu("What the screens say of a program with:", letters), self._show_example)

    def _show_example(self, title: str | None) -> None:
        machine = self._world.machine
        if title is None or not isinstance(machine, Demonstration):
            return
        pid = machine.show_example(title.removeprefix("-"))  # a menu returns this for a capital letter
        self._world.take(machine.look(Attention(), self.settings.interval_s))
        self.snapshot = self._world.snapshot
        self.attached.replace(pid)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a monitor there is no other machine to show, and only the demonstration has examples."""
        if action == "demo":
            return self.attached.has_monitor
        if action == "example":
            return isinstance(self._world.machine, Demonstration)
        return super().check_action(action, parameters)

    def send_signal(self, name: str, identities: Sequence[Identity]) -> None:
        """Send a signal to processes, and report the result."""
        sent = sum(self._is_sent(name, identity) for identity in identities)
        if sent:
            self.say(f"{name} sent to {sent} process{'es' if sent > 1 else ''}.", is_error=False)
        self._sampler.refresh()

    def _is_sent(self, name: str, identity: Identity) -> bool:
        try:
            self._world.machine.send_signal(identity, NUMBERS[name])
        except GputuiError as error:
            self.say(str(error))
            return False
        return True

    def _resumed(self) -> None:
        self.forget_screen()
        self._sampler.set_paused(self.state.is_paused)


if TYPE_CHECKING:

    def _as_monitor(app: GputuiApp) -> Monitor:
        return app  # mypy checks here that the application has what screens need
