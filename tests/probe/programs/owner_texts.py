"""The owners of an inventory's storages as the viewer writes them."""

from gputui.model.attached.owners import OwnerName


def owner_text(storage):
    """The name of a storage's owner."""
    return OwnerName(*storage["owner"])
