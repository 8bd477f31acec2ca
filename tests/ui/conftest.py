"""Screens that tests compare with files."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class TextFiles(SingleFileSnapshotExtension):
    """A screen as text, one file per screen."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class SvgFiles(TextFiles):
    """A screen as an SVG picture, one file per screen."""

    file_extension = "svg"


@pytest.fixture
def screen_text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compares with the screen stored as text; `pytest --snapshot-update` stores a new one."""
    return snapshot.use_extension(TextFiles)


@pytest.fixture
def screen_looks(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compares with the screen stored as SVG."""
    return snapshot.use_extension(SvgFiles)
