"""Where the record of this machine is."""

from __future__ import annotations

from collections.abc import Mapping

from gputui.protocol.black_boxes import default_folder


def record_file(environment: Mapping[str, str]) -> str:
    """`machine.db` in the user's folder for state; "" if there is no home."""
    folder = default_folder(environment)
    return f"{folder}/machine.db" if folder else ""
