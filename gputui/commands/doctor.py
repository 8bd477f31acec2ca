"""`gputui doctor`: checks what works on this machine."""

from __future__ import annotations

from gputui.commands.parser import Parser
from gputui.output import put
from gputui.settings import Settings


def run(arguments: list[str], settings: Settings) -> int:  # noqa: ARG001 - the doctor reads the settings file itself
    """Print the findings; the exit status is 1 where something is broken."""
    parser = Parser(
        prog="gputui doctor",
        description="Check what works on this machine, and how to fix what does not.\n"
        "The output names no person, host, device or process.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parsed = parser.parse(arguments)
    from gputui.doctor import Grade, examine, report

    findings = examine()
    put(report(findings, as_json=parsed.json))
    return 1 if any(finding.grade is Grade.BROKEN for finding in findings) else 0
