"""`gputui doctor`: what works here, what does not, and the remedy."""

from __future__ import annotations

from gputui.commands.parser import Parser
from gputui.output import put
from gputui.settings import Settings


def run(arguments: list[str], settings: Settings) -> int:  # noqa: ARG001 - the doctor looks at the settings file itself
    """Print the findings; 1 where something is broken, else 0."""
    parser = Parser(
        prog="gputui doctor",
        description="What works here, what does not, and the remedy. It names no person, host, device or process.",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON document")
    parsed = parser.parse(arguments)
    from gputui.doctor import Grade, examine, report

    findings = examine()
    put(report(findings, as_json=parsed.json))
    return 1 if any(finding.grade is Grade.BROKEN for finding in findings) else 0
