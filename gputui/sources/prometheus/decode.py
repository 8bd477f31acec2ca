"""Makes series from a server's answer, which may be anything: what is no vector or matrix of numbers is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

MOST_SERIES = 500_000
_LABEL_LENGTH = 300
"""Longer values of labels are cut: people read them."""


class Series(NamedTuple):
    """Labels and the newest value; `points` are all (time, value) pairs of a range, none of them NaN or infinite."""

    labels: Mapping[str, str]
    value: float
    points: tuple[tuple[float, float], ...] = ()


class WrongAnswerError(ValueError):
    """The answer is none of Prometheus' API."""


class TooManyError(ValueError):
    """The answer has more series than gputui takes."""


class Answer(NamedTuple):
    """The data of an answer, and how many samples the server has read for it, 0 if it does not say."""

    data: Any
    samples: int = 0


def answer_of(text: bytes) -> Answer:
    """The data in an answer; raises WrongAnswerError for anything else."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongAnswerError from error
    if not isinstance(body, dict) or body.get("status") != "success" or "data" not in body:
        raise WrongAnswerError
    data = body["data"]
    stats = data.get("stats") if isinstance(data, dict) else None
    counted = stats.get("samples") if isinstance(stats, dict) else None
    samples = counted.get("totalQueryableSamples") if isinstance(counted, dict) else 0
    return Answer(data, samples if isinstance(samples, int) else 0)


def reason_of(text: bytes) -> str:
    """Why the server refuses a query, in the server's words; "" if it does not say."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    words = body.get("error") if isinstance(body, dict) else None
    return words if isinstance(words, str) else ""


def series_of(data: object) -> tuple[Series, ...]:
    """The series of a vector or a matrix, without values that are NaN or infinite."""
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise WrongAnswerError
    if len(rows) > MOST_SERIES:
        raise TooManyError
    return tuple(_series(rows))


def names_of(data: object) -> frozenset[str]:
    """A list of names."""
    if not isinstance(data, list):
        raise WrongAnswerError
    return frozenset(name for name in data if isinstance(name, str))


def _series(rows: list[Any]) -> Iterator[Series]:
    for row in rows:
        try:
            labels = {str(name): str(value)[:_LABEL_LENGTH] for name, value in row["metric"].items()}
            if "values" in row:
                pairs = ((float(time), float(value)) for time, value in row["values"])
                points = tuple(pair for pair in pairs if all(map(isfinite, pair)))
                value = points[-1][1] if points else float("nan")
            else:
                points, value = (), float(row["value"][1])
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise WrongAnswerError from error
        if isfinite(value):
            yield Series(labels, value, points)
