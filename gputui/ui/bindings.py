"""The keys that work on every screen, and the names of keys that the settings may use."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import Binding, BindingType
from textual.keys import Keys, key_to_character

APP_BINDINGS: list[BindingType] = [
    Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help", tooltip="every key"),
    Binding(
        "q,f10",
        "quit",
        "Quit",
        key_display="q",
        priority=False,
        id="app.quit",
        tooltip="quit and restore the terminal",
    ),
    Binding("E", "example", "Example", id="app.example", tooltip="in the demonstration: another recorded program"),
    Binding("p", "pause", "Pause", id="app.pause", tooltip="pause all readings, or resume them"),
    Binding(
        "plus,equals_sign",
        "interval(1)",
        "Slower",
        key_display="+",
        show=False,
        id="app.slower",
        tooltip="read less often",
    ),
    Binding(
        "minus",
        "interval(-1)",
        "Faster",
        key_display="-",
        show=False,
        id="app.faster",
        tooltip="read more often",
    ),
    Binding("f5", "refresh_now", "Refresh now", show=False, id="app.refresh", tooltip="read everything now"),
    Binding(
        "ctrl+l",
        "repaint",
        "Repaint the terminal",
        show=False,
        id="app.repaint",
        tooltip="draw the whole screen again",
    ),
    Binding(
        "D",
        "demo",
        "Demonstration",
        show=False,
        id="app.demo",
        tooltip="show a simulated machine, or this one again",
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
        tooltip="suspend to the shell; fg resumes",
    ),
    Binding("ctrl+c", "quit", "Quit", show=False, id="app.interrupt", tooltip="quit", priority=True),
]

ZOOM_BINDING = Binding("z", "zoom", "Zoom", show=False, id="graph.zoom", tooltip="seconds per cell of the graphs")
"""A key of every screen with graphs."""

FINDINGS_BINDING = Binding(
    "w", "app.findings", "Findings", id="app.findings", tooltip="what is wrong with this machine"
)
"""A key of the overview."""

HIDDEN_FINDINGS_BINDING = replace(FINDINGS_BINDING, show=False)
"""The same key on the screens of a device and of a process, whose own keys take the line of keys."""

PAST_BINDING = Binding(
    "left_square_bracket",
    "past(-1)",
    "-1 h",
    key_display="[",
    id="past.back",
    tooltip="what gputui record has kept: an hour back",
)
"""A key of the screen of the past."""

HIDDEN_PAST_BINDING = replace(PAST_BINDING, show=False)
"""The same key on the overview and on the screen of a device, where it opens the screen of the past."""

COLLECTIVES_BINDING = Binding(
    "c",
    "collectives",
    "Who is behind",
    id="processes.collectives",
    tooltip="ask NCCL which rank of the job is behind, after a question",
)
"""A key of the screens of a process and of ranks."""

HIDDEN_COLLECTIVES_BINDING = replace(COLLECTIVES_BINDING, show=False)
"""The same key on the overview."""

SIGNAL_BINDINGS = (
    Binding("T", "signal('SIGTERM')", "Terminate", show=False, id="signal.term", tooltip="send SIGTERM: ask it to end"),
    Binding("K", "signal('SIGKILL')", "Kill", show=False, id="signal.kill", tooltip="send SIGKILL: end it at once"),
    Binding(
        "I", "signal('SIGINT')", "Interrupt", show=False, id="signal.interrupt", tooltip="send SIGINT, as Ctrl-C does"
    ),
    Binding("f9", "choose_signal", "Signal", id="signal.choose", tooltip="choose a signal"),
)
"""Keys of the screens with processes."""

COPY_BINDINGS: list[BindingType] = [
    Binding("y", "copy_identity", "Copy", show=False, id="copy.identity", tooltip="copy the PID, or the device's UUID"),
    Binding("Y", "copy_command", "Copy command", show=False, id="copy.command", tooltip="copy the whole command"),
]
"""Keys of every screen about a process or a device; what is copied goes to the terminal's clipboard."""

MODIFIERS = frozenset({"ctrl", "shift", "alt", "meta", "super", "hyper"})
NAMES = frozenset(key.value for key in Keys)


def key_name(name: str) -> str:
    """The one name of a key that a terminal can send: "x", "question_mark" for "?", "ctrl+g"; "" for any other name.

    "," and " " are no names, as Textual has commas and spaces between keys: theirs are "comma" and "space".
    """
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    is_known = len(key) == 1 or key in NAMES or key_to_character(key) is not None
    if key in (",", " ") or not is_known or not MODIFIERS.issuperset(modifiers):
        return ""
    return next(iter(Binding.make_bindings([Binding(name, "", "")]))).key
