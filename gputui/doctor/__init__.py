"""The checks behind `gputui doctor`, and their findings."""

from gputui.doctor.checks import CHECKS, examine
from gputui.doctor.finding import Finding, Grade, report

__all__ = ["CHECKS", "Finding", "Grade", "examine", "report"]
