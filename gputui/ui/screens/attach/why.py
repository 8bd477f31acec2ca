"""The Why screen: the answer, who holds the memory, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Union

from textual import on
from textual.app import ComposeResult

from gputui.explain.failure.sections import Section, sections_of
from gputui.explain.whatif.advice import ADVISING, with_outcome
from gputui.model.attached.analysis import Finding
from gputui.ui.drawing.attach.failure import draw_section
from gputui.ui.drawing.attach.why import VERDICT_LINES, draw_answer, draw_finding, draw_verdict
from gputui.ui.drawing.line import Line
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.widgets.blocks import Blocks


def _draw(entry: Finding | Section, width: int, is_current: bool) -> list[Line]:  # noqa: FBT001 - as the widget calls it
    destination = ATTACH_SCREENS[entry.screen].title if entry.screen else ""
    if isinstance(entry, Section):
        return draw_section(entry, width, is_current=is_current, destination=destination)
    return draw_finding(entry, width, is_current=is_current, destination=destination)


class WhyScreen(AttachScreen):
    """An out-of-memory error, then the verdict and findings; Enter goes to the screen that a finding points to."""

    NAME = "why"
    BODY_HAS_VERDICT = True

    def compose_body(self) -> ComposeResult:
        yield Blocks[Union[Finding, Section]](_draw, id="why")

    def draw(self) -> None:
        """Draw the answer for the moment."""
        blocks = self.query_one("#why", Blocks)
        target, moment = self.target, self.moment
        if target is None or moment is None or self.device is None:
            blocks.set_blocks((), self.nothing_yet, key=id)
            return
        answer = target.answer
        if moment.failure is not None or any(finding.kind in ADVISING for finding in answer.findings):
            target.replay_cases(self.monitor.attached.hand_over)
        replayed = target.whatif.replayed
        shown = tuple(
            replace(finding, remedy=self.with_look_key(finding.remedy)) if finding.needs_look else finding
            for finding in with_outcome(answer.findings, replayed)
        )
        sections = sections_of(moment, replayed)

        def head(width: int) -> list[Line]:
            if sections:  # the error comes first, and its own sections say who held the memory and what to do
                return [*draw_verdict(self.verdict, width, most=VERDICT_LINES), (), *self.problems(width)]
            return [*draw_answer(self.verdict, shown, width), *self.problems(width)]

        blocks.set_blocks((*sections, *shown), head, key=lambda entry: entry.kind)

    @on(Blocks.Chosen)
    def _chosen(self, message: Blocks.Chosen) -> None:
        entry = message.entry
        if isinstance(entry, Finding) and self.target:
            self.target.prefers_top = False  # findings are about the present
        if isinstance(entry, Finding) and entry.screen and entry.addresses:
            self.monitor.jump_to(entry.screen, entry.addresses[0])
        elif isinstance(entry, (Finding, Section)) and entry.screen:
            self.monitor.show_attach_screen(entry.screen)
