"""Colours: every theme is readable at every colour depth, and colour never carries meaning alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from textual.dom import DOMNode
from textual.strip import Strip

from gputui.model.machine.device import Lost
from gputui.settings.settings import THEMES
from gputui.ui.backend.pen import look_of
from gputui.ui.drawing.roles import ROLES
from gputui.ui.widgets.painted import Painted
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor
from tests.ui.terminal import Terminal
from tests.ui.wire import Wire

READ = [role for role in ROLES if role != "track"]
"""Roles of text that must be readable; "track", the empty part of a meter, need not be."""


def looks(monitor: Monitor, system: ColorSystem) -> dict[str, tuple[str, str, str]]:
    """SGR attributes, foreground and background of each role, as sent to the terminal."""
    screen = monitor.app.screen
    looks_by_role = {}
    for role in ROLES:
        strip = Strip([Segment("x", screen.get_component_rich_style(f"role--{role}"))])
        for line_filter in monitor.app.get_line_filters():
            strip = strip.apply_filter(line_filter, screen.background_colors[1])
        (segment,) = strip
        looks_by_role[role] = look_of(segment.style, system)
    return looks_by_role


def is_seen(look: tuple[str, str, str]) -> bool:
    """Whether foreground and background differ; 39 and 49, the terminal's defaults, are assumed to."""
    _, foreground, background = look
    return foreground.replace("38;", "", 1) != background.replace("48;", "", 1)


STANDING_OUT = ("cursor", "head", "alarm", "tagged", "good", "fair", "poor")


async def test_every_role_is_readable_and_levels_stand_out_in_every_theme():
    async with open_monitor() as monitor:
        for theme in THEMES:
            await wear(monitor, theme)
            for system in (ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR):
                looks_by_role = looks(monitor, system)
                where = (theme, system)
                assert [role for role in READ if not is_seen(looks_by_role[role])] == [], where
                assert [role for role in STANDING_OUT if looks_by_role[role] == looks_by_role["plain"]] == [], where
                assert len({looks_by_role[role] for role in ("good", "fair", "poor")}) == 3, where


async def test_ansi_themes_are_readable_with_16_colours():
    async with open_monitor() as monitor:
        for theme in ("terminal", "ansi-dark", "ansi-light"):
            await wear(monitor, theme)
            looks_by_role = looks(monitor, ColorSystem.STANDARD)
            assert [role for role in READ if not is_seen(looks_by_role[role])] == [], theme
            assert len({looks_by_role[role] for role in ("plain", "cursor", "good", "fair", "poor")}) == 5, theme


async def test_a_theme_from_the_settings_looks_like_one_chosen_later():
    async with open_monitor(theme="nord") as monitor:
        assert monitor.app.theme == "nord"
        at_the_start = looks(monitor, ColorSystem.TRUECOLOR)
    async with open_monitor() as monitor:
        assert looks(monitor, ColorSystem.TRUECOLOR) != at_the_start
        await wear(monitor, "nord")
        assert looks(monitor, ColorSystem.TRUECOLOR) == at_the_start


async def wear(monitor: Monitor, theme: str) -> None:
    """Change the theme and wait until everything is drawn in it."""
    monitor.app.theme = theme
    await monitor.settle()
    assert monitor.app.has_class(f"-theme-{theme}")


class TestWithoutColour:
    """With NO_COLOR, only attributes distinguish roles."""

    @pytest.mark.parametrize("theme", ["terminal", "textual-dark"])
    async def test_no_colour_is_sent(self, monkeypatch, theme):
        monkeypatch.setenv("NO_COLOR", "1")
        async with open_monitor(theme=theme, size=(80, 24)) as monitor:
            terminal, wire = Terminal(80, 24), Wire(monitor.app)
            await monitor.press("down", "space")
            monitor.app.screen.refresh()
            await monitor.settle()
            for difference in wire.sent:
                terminal.feed(difference)
            pens = {pen for row in terminal.cells for _, pen in row}
            assert {(pen.foreground, pen.background) for pen in pens} == {((39,), (49,))}

    async def test_the_cursor_heads_tags_and_alarms_still_stand_out(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        async with open_monitor() as monitor:
            looks_by_role = looks(monitor, ColorSystem.EIGHT_BIT)
            plain = looks_by_role["plain"][0]
            assert [
                role for role in ("cursor", "head", "tagged", "alarm", "poor") if looks_by_role[role][0] == plain
            ] == []


async def test_a_red_reading_also_has_words():
    hot = scenes.device(temperature_c=88, throttle_reasons=("hw_thermal_slowdown",))
    failing = scenes.device(1, ecc_uncorrected=2)
    async with open_monitor(scenes.snapshot((hot, failing)), size=(200, 50)) as monitor:
        first, second = (line for line in monitor.lines if "H100" in line)
        assert "88°C" in first
        assert "hw thermal slow" in first
        assert "2 ECC errors" in second


async def test_a_tagged_row_is_marked_by_text_as_well_as_colour():
    async with open_monitor() as monitor:
        await monitor.press("space")
        tagged = next(line for line in monitor.lines if " 2010 " in line)
        await monitor.press("escape")
        plain = next(line for line in monitor.lines if " 2010 " in line)
        assert tagged != plain


async def test_a_lost_device_is_marked_by_text_as_well_as_colour():
    async with open_monitor(scenes.snapshot((scenes.device()._replace(lost=Lost("GPU is lost")),))) as monitor:
        assert "▲ GPU is lost." in monitor.text


async def test_styles_of_roles_are_computed_once_per_screen():
    async with open_monitor() as monitor:
        screen, stylesheet = monitor.app.screen, monitor.app.stylesheet
        applied: list[DOMNode] = []
        apply = stylesheet.apply

        def count(node: DOMNode, **options: object) -> None:
            applied.append(node)
            apply(node, **options)

        stylesheet.apply = count
        stylesheet.update(screen)
        roles = [node for node in applied if any(name.startswith("role--") for name in node.classes)]
        assert len(roles) == len(ROLES)
        assert len(screen.query(Painted)) > 5


async def test_a_theme_that_changes_only_one_role_is_repainted():
    async with open_monitor(theme="textual-dark") as monitor:
        wire = Wire(monitor.app)
        redder = replace(monitor.app.current_theme, name="redder", primary="#ff0000")
        monitor.app.register_theme(redder)
        monitor.app.screen.refresh()
        await monitor.settle()
        wire.sent.clear()
        monitor.app.theme = "redder"
        await monitor.settle()
        assert wire.bytes
        title = monitor.app.screen.get_component_rich_style("role--title").color
        pens = {segment.style.color for strip in monitor.app.screen._compositor.render_strips() for segment in strip}
        assert title in pens
