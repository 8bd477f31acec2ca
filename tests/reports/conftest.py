"""The programs here are attached to as those of tests/attach are."""

from tests.attach.conftest import sockets

__all__ = ["sockets"]
