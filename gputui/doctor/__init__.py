"""The checks behind `gputui doctor`, and their findings."""

from gputui.doctor.checks import CHECKS, examine
from gputui.doctor.diagnosis import Diagnosis, Grade, report

__all__ = ["CHECKS", "Diagnosis", "Grade", "examine", "report"]
