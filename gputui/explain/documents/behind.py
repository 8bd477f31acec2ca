"""The document about a job's ranks: what NCCL answered, and which rank is behind."""

from __future__ import annotations

from typing import Any

from gputui.explain.ranks.collectives import Compared, Findings, Suspect
from gputui.model.collectives import Inquiry

SCHEMA = "gputui.behind/1"


def behind_document(inquiry: Inquiry, found: Findings) -> dict[str, Any]:
    """The document, which docs/ranks.md describes."""
    newest = inquiry.second or inquiry.first
    return {
        "schema": SCHEMA,
        "pid": inquiry.pid,
        "nccl": newest.nccl_version if newest else None,
        "answers": (inquiry.first is not None) + (inquiry.second is not None),
        "headline": found.headline or None,
        "ranks": [_rank(suspect, inquiry) for suspect in found.suspects],
        "communicators": [_communicator(each) for each in found.communicators],
        "problems": [inquiry.problem] if inquiry.problem else [],
    }


def _rank(suspect: Suspect, inquiry: Inquiry) -> dict[str, Any]:
    pid = inquiry.here.get(suspect.place)
    return {
        "rank": suspect.rank,
        "trouble": suspect.trouble.name.lower(),
        "host": suspect.place.host or None,
        "host_pid": suspect.place.pid,
        "pid_here": pid,
        "nvml_index": suspect.nvml_device if suspect.nvml_device >= 0 else None,
        "waiting_ranks": suspect.waiting,
        "sentence": suspect.sentence or None,
        "main_thread": (inquiry.doing.get(pid) or None) if pid is not None else None,
    }


def _communicator(compared: Compared) -> dict[str, Any]:
    communicator = compared.communicator
    return {
        "hash": communicator.key.partition(" ")[0],
        "size": communicator.size,
        "missing": len(communicator.missing),
        "state": compared.state.name.lower(),
        "fewest_launched": compared.fewest,
        "most_launched": compared.most,
    }
