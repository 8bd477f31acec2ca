"""The themes that gputui adds to those of Textual."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

TERMINAL = Theme(
    name="terminal",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_blue",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_cyan",
        "input-cursor-background": "ansi_white",
        "input-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_blue",
        "border-blurred": "ansi_bright_black",
    },
)
"""The terminal's own sixteen colours on its own background: right at every colour depth, and the fewest bytes."""

THEMES = (TERMINAL,)
