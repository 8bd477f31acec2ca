"""The doctor's findings, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum


class Grade(str, Enum):
    """How serious a finding is: BROKEN means that a part of gputui cannot work."""

    FINE = "ok"
    LIMITED = "limited"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding of a check; `remedy` is a sentence, "" where there is nothing to do."""

    check: str
    grade: Grade
    text: str
    remedy: str = ""


def fine(check: str, text: str) -> Diagnosis:
    """The finding that something works."""
    return Diagnosis(check, Grade.FINE, text)


def report(findings: Iterable[Diagnosis], *, as_json: bool) -> str:
    """The findings as a table, a remedy under each that has one, or as a JSON document."""
    if as_json:
        import json

        body = [asdict(finding) | {"grade": finding.grade.value} for finding in findings]
        return json.dumps({"schema": "gputui.doctor/1", "findings": body}) + "\n"
    return "".join(f"{line}\n" for finding in findings for line in _lines(finding))


def _lines(finding: Diagnosis) -> list[str]:
    lines = [f"{finding.grade.value:<8}{finding.check:<16}{finding.text}"]
    return [*lines, f"{'':<24}-> {finding.remedy}"] if finding.remedy else lines
