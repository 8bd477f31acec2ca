"""Every private name of Textual that gputui uses; tests/ui/backend/test_private_names.py checks this table.

Textual promises nothing about these names, so the range of its versions is that of the tested ones. Before the range
becomes wider, that test lists what is gone.
"""

from __future__ import annotations

from typing import NamedTuple


class PrivateName(NamedTuple):
    """A name, the module or class that has it ("module" or "module:Class"), and what gputui does with it.

    `parameters` are those of a class or method that gputui constructs, calls or overrides with arguments.
    """

    where: str
    name: str
    purpose: str
    parameters: tuple[str, ...] = ()


COMPOSITOR = "textual._compositor"
APP = "textual.app:App"
PUMP = "textual.message_pump:MessagePump"
DRIVER = "textual.drivers.linux_driver:LinuxDriver"
WRITER = "textual.drivers._writer_thread:WriterThread"

PRIVATE_NAMES = (
    # screen_diff.py, terminal_app.py: frames as Textual makes them
    PrivateName(COMPOSITOR, "CompositorUpdate", "tells a frame from other output"),
    PrivateName(COMPOSITOR, "LayoutUpdate", "a frame of a whole region", ("strips", "region")),
    PrivateName(COMPOSITOR, "ChopsUpdate", "a frame of the parts that changed", ("chops", "spans", "chop_ends")),
    PrivateName(APP, "_display", "overridden: sends only the cells that differ", ("self", "screen", "renderable")),
    PrivateName(APP, "_closed", "no frame is sent once the application has closed"),
    PrivateName(APP, "_batch_count", "no frame is sent inside batch_update()"),
    PrivateName(APP, "_sync_available", "whether the terminal understands synchronized output"),
    PrivateName(APP, "_driver", "the terminal of the running application"),
    # typed_ahead.py: when a key has done all that it does
    PrivateName(APP, "_registry", "everything that may have messages left"),
    PrivateName(PUMP, "_message_queue", "the messages that are left"),
    PrivateName(PUMP, "_closing", "what is closing handles no messages"),
    # terminal_app.py: how the application ends
    PrivateName(APP, "_exception", "raised again once the terminal is restored"),
    PrivateName(APP, "_fatal_error", "overridden: Textual's report prints the values of local variables", ("self",)),
    PrivateName(APP, "_close_messages_no_wait", "ends the application after an error", ("self",)),
    # terminal.py, screens.py
    PrivateName(APP, "_exit", "the application is ending: takes no terminal again, and draws no screen"),
    # terminal.py: the driver
    PrivateName(DRIVER, "_file", "replaced: standard output instead of standard error"),
    PrivateName(DRIVER, "_size", "set to the terminal's own size instead of COLUMNS and LINES"),
    PrivateName(DRIVER, "_get_terminal_size", "overridden for the same reason", ("self",)),
    PrivateName(DRIVER, "_writer_thread", "writes to the terminal; None while the terminal is not ours"),
    PrivateName(WRITER, "_queue", "unbounded, so that a write never blocks the event loop; empty: nothing is waiting"),
    PrivateName(DRIVER, "_disable_mouse_support", "called where no thread that reads keys could be started"),
    PrivateName(DRIVER, "_key_thread", "set to None once it has stopped, so that it is stopped only once"),
    PrivateName(DRIVER, "_run_input_thread", "overridden: Textual turns an error into exit status 0", ("self",)),
    PrivateName(DRIVER, "_mouse_pixels", "switched off on the way out, which Textual forgets"),
    PrivateName(DRIVER, "_must_signal_resume", "tells the application that it was resumed"),
    PrivateName(DRIVER, "_sigtstp_application", "overridden: stops the whole job", ("self", "_")),
    PrivateName(DRIVER, "_sigcont_application", "takes the terminal again", ("self", "_")),
    PrivateName("textual._xterm_parser", "XTermParser", "turns what was typed into events"),
    PrivateName("textual._parser:Parser", "_timeout_time", "whether the rest of an escape sequence is awaited"),
    # screens.py
    PrivateName("textual.screen:Screen", "_screen_resized", "overridden: an old size may come late", ("self", "size")),
    PrivateName("textual.dom:DOMNode", "_pruning", "the screen is being taken down, widget by widget"),
)
