"""The Why screen: why the memory is as it is, and what to do."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from gputui.explain.advice import findings
from gputui.explain.drivers import utilization_of
from gputui.model.finding import Finding
from gputui.model.process import Process
from gputui.ui.drawing.attach.head import draw_ending
from gputui.ui.drawing.attach.why import draw_finding, draw_summary
from gputui.ui.drawing.line import Line, wrap
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.attach.blocks import Blocks


def _draw(finding: Finding, width: int, is_current: bool) -> list[Line]:  # noqa: FBT001 - as the widget calls it
    return draw_finding(finding, width, is_current=is_current)


class WhyScreen(AttachScreen):
    """Findings, the most important first; Enter goes to the map or the tensors where one points."""

    NAME = "why"

    def compose_body(self) -> ComposeResult:
        """One page of findings."""
        yield Blocks[Finding](_draw, id="why")

    def draw(self) -> None:
        """Say what there is to say about the moment."""
        blocks = self.query_one("#why", Blocks)
        moment, device, target = self.moment, self.device, self.target
        if moment is None or device is None or target is None:
            blocks.set_blocks((), self.nothing_yet, key=id)
            return
        found = findings(
            moment,
            device.index,
            target.timeline.points,
            target.timeline.moments,
            process=self._process(moment.pid),
            utilization_percent=utilization_of(moment.greeting, self.monitor.snapshot.devices, device.index),
        )

        def head(width: int) -> list[Line]:
            problems = [line for problem in moment.problems for line in wrap(f" {problem}", width, "fair")]
            return [*draw_ending(moment, width), *problems, draw_summary(found, width), ()]

        blocks.set_blocks(found, head, key=lambda finding: finding.kind)

    @on(Blocks.Chosen)
    def _chosen(self, message: Blocks.Chosen) -> None:
        finding = message.entry
        if isinstance(finding, Finding) and finding.screen:
            if finding.addresses:
                self.monitor.jump_to(finding.screen, finding.addresses[0])
            else:
                self.monitor.show_attach_screen(finding.screen)

    def _process(self, pid: int) -> Process | None:
        processes = self.monitor.snapshot.processes.processes
        return next((process for process in processes if process.pid == pid), None)
