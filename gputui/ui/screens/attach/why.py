"""The Why screen: why memory is used as it is, and what to do."""

from __future__ import annotations

from dataclasses import replace

from textual import on
from textual.app import ComposeResult

from gputui.explain.advice import findings
from gputui.model.finding import Finding
from gputui.ui.drawing.attach.why import draw_counts, draw_finding
from gputui.ui.drawing.line import Line
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.widgets.attach.blocks import Blocks


def _draw(finding: Finding, width: int, is_current: bool) -> list[Line]:  # noqa: FBT001 - as the widget calls it
    destination = ATTACH_SCREENS[finding.screen].title if finding.screen else ""
    return draw_finding(finding, width, is_current=is_current, destination=destination)


class WhyScreen(AttachScreen):
    """Findings, the most important first; Enter goes to the screen that a finding points to."""

    NAME = "why"

    def compose_body(self) -> ComposeResult:
        yield Blocks[Finding](_draw, id="why")

    def draw(self) -> None:
        """Draw the findings about the moment."""
        blocks = self.query_one("#why", Blocks)
        moment, device, target = self.moment, self.device, self.target
        if moment is None or device is None or target is None:
            blocks.set_blocks((), self.nothing_yet, key=id)
            return
        advice = findings(
            moment,
            device.index,
            target.timeline.points,
            target.timeline.moments,
            workers=moment.host.workers,
            utilization_percent=device.driver.utilization_percent,
        )

        shown = tuple(
            replace(finding, remedy=self.with_look_key(finding.remedy)) if finding.needs_look else finding
            for finding in advice
        )

        def head(width: int) -> list[Line]:
            problems = self.problems(width)
            return [*problems, draw_counts(shown, width), ()]

        blocks.set_blocks(shown, head, key=lambda finding: finding.kind)

    @on(Blocks.Chosen)
    def _chosen(self, message: Blocks.Chosen) -> None:
        finding = message.entry
        if isinstance(finding, Finding) and finding.screen:
            if finding.addresses:
                self.monitor.jump_to(finding.screen, finding.addresses[0])
            else:
                self.monitor.show_attach_screen(finding.screen)
