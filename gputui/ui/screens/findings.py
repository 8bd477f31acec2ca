"""The findings screen: what is wrong with this machine, and Enter to where it is."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from gputui.model.machine.finding import MachineFinding
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.findings import draw_finding, draw_findings_head
from gputui.ui.screens.base import MonitorScreen, SubScreen
from gputui.ui.screens.device import DeviceScreen
from gputui.ui.screens.process import ProcessScreen
from gputui.ui.widgets.blocks import Blocks


class FindingsScreen(SubScreen):
    """All findings about the machine, the worst first."""

    AUTO_FOCUS: ClassVar[str] = "#findings"

    def compose_body(self) -> ComposeResult:
        yield Blocks[MachineFinding](self._draw_block, id="findings")

    def draw(self) -> None:
        """Show the findings of the newest snapshot; the cursor stays on its finding."""
        findings = self.monitor.snapshot.findings
        blocks = self.query_one("#findings", Blocks)
        blocks.set_blocks(
            findings,
            lambda width: draw_findings_head(findings, width, is_fleet=self.monitor.snapshot.fleet is not None),
            key=lambda finding: finding.key,
        )

    def _draw_block(self, finding: MachineFinding, width: int, is_current: bool) -> list[Line]:  # noqa: FBT001 - as the widget calls it
        return draw_finding(finding, self.monitor.snapshot.time, width, is_current=is_current)

    @on(Blocks.Chosen)
    def _chosen(self, message: Blocks.Chosen) -> None:
        finding = message.entry
        if not isinstance(finding, MachineFinding):
            return
        if finding.node is not None:
            below = self.app.screen_stack[-2]
            self.dismiss()
            if isinstance(below, MonitorScreen):
                below.show_node(finding.node)
            return
        processes = self.monitor.snapshot.processes.processes
        process = next((process for process in processes if process.identity == finding.process), None)
        if process:
            self.app.push_screen(ProcessScreen(process))
        elif finding.device:
            self.app.push_screen(DeviceScreen(finding.device))
        else:
            self.monitor.say("This finding is about the host, which the overview shows.", is_error=False)
