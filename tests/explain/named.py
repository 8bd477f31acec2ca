"""Owners by their names, as recordings of earlier versions have them."""

from __future__ import annotations

from gputui.model.attached.owners import OwnerName
from gputui.model.earlier_owners import owner_of_text


def named(owner: str) -> OwnerName:
    """The owner that is called like this."""
    return owner if isinstance(owner, OwnerName) else owner_of_text(owner)
