"""Colours: every theme on every depth can be read, and colour never carries meaning alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from textual.dom import DOMNode
from textual.strip import Strip

from gputui.model.device import Lost
from gputui.settings.settings import THEMES
from gputui.ui.backend.pen import look_of
from gputui.ui.drawing.roles import ROLES
from gputui.ui.widgets.painted import Painted
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor
from tests.ui.terminal import Terminal
from tests.ui.wire import Wire

READ = [role for role in ROLES if role != "track"]
"""Roles of text that a person reads; a meter's empty part only has to be there."""


def looks(monitor: Monitor, system: ColorSystem) -> dict[str, tuple[str, str, str]]:
    """SGR attributes, foreground and background of each role, as they go to the terminal."""
    screen = monitor.app.screen
    found = {}
    for role in ROLES:
        strip = Strip([Segment("x", screen.get_component_rich_style(f"role--{role}"))])
        for line_filter in monitor.app.get_line_filters():
            strip = strip.apply_filter(line_filter, screen.background_colors[1])
        (segment,) = strip
        found[role] = look_of(segment.style, system)
    return found


def is_seen(look: tuple[str, str, str]) -> bool:
    """Whether foreground and background differ; 39 and 49 are the terminal's own, which do."""
    _, foreground, background = look
    return foreground.replace("38;", "", 1) != background.replace("48;", "", 1)


STANDING_OUT = ("cursor", "head", "alarm", "tagged", "good", "fair", "poor")


async def test_every_role_can_be_read_and_levels_stand_out_in_every_theme():
    async with open_monitor() as monitor:
        for theme in THEMES:
            await wear(monitor, theme)
            for system in (ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR):
                found = looks(monitor, system)
                where = (theme, system)
                assert [role for role in READ if not is_seen(found[role])] == [], where
                assert [role for role in STANDING_OUT if found[role] == found["plain"]] == [], where
                assert len({found[role] for role in ("good", "fair", "poor")}) == 3, where


async def test_the_terminals_own_colours_do_on_sixteen():
    async with open_monitor() as monitor:
        for theme in ("terminal", "ansi-dark", "ansi-light"):
            await wear(monitor, theme)
            found = looks(monitor, ColorSystem.STANDARD)
            assert [role for role in READ if not is_seen(found[role])] == [], theme
            assert len({found[role] for role in ("plain", "cursor", "good", "fair", "poor")}) == 5, theme


async def test_a_theme_of_the_settings_is_there_from_the_start_as_if_it_were_chosen_later():
    async with open_monitor(theme="nord") as monitor:
        assert monitor.app.theme == "nord"
        at_the_start = looks(monitor, ColorSystem.TRUECOLOR)
    async with open_monitor() as monitor:
        assert looks(monitor, ColorSystem.TRUECOLOR) != at_the_start
        await wear(monitor, "nord")
        assert looks(monitor, ColorSystem.TRUECOLOR) == at_the_start


async def wear(monitor: Monitor, theme: str) -> None:
    """Change the theme and wait until all is drawn in it."""
    monitor.app.theme = theme
    await monitor.settle()
    assert monitor.app.has_class(f"-theme-{theme}")


class TestWithoutColour:
    """NO_COLOR: attributes are all there is."""

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

    async def test_cursor_head_tags_and_alarms_still_stand_out(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        async with open_monitor() as monitor:
            found = looks(monitor, ColorSystem.EIGHT_BIT)
            plain = found["plain"][0]
            assert [role for role in ("cursor", "head", "tagged", "alarm", "poor") if found[role][0] == plain] == []


async def test_what_is_red_is_also_said():
    hot = scenes.device(temperature_c=88, throttle_reasons=("hw_thermal_slowdown",))
    failing = scenes.device(1, ecc_uncorrected=2)
    async with open_monitor(scenes.snapshot((hot, failing)), size=(200, 50)) as monitor:
        first, second = (line for line in monitor.lines if "H100" in line)
        assert "88°C" in first
        assert "hw thermal slow" in first
        assert "2 ECC errors" in second


async def test_a_tagged_row_is_marked_by_more_than_its_colour():
    async with open_monitor() as monitor:
        await monitor.press("space")
        tagged = next(line for line in monitor.lines if " 2010 " in line)
        await monitor.press("escape")
        plain = next(line for line in monitor.lines if " 2010 " in line)
        assert tagged != plain


async def test_a_lost_device_is_marked_by_more_than_its_colour():
    async with open_monitor(scenes.snapshot((scenes.device()._replace(lost=Lost("GPU is lost")),))) as monitor:
        assert "▲ GPU is lost." in monitor.text


async def test_roles_are_dressed_once_for_a_screen():
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


async def test_a_theme_that_changes_a_role_alone_is_painted():
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
