"""The messages between `gputui relay` and the viewer that has started it by ssh, in frames before the probe's own.

Each message of the relay has the type `RELAY` and a `state`; after `READY`, the relay passes on what comes from the
probe, unchanged, and adds `GONE` if the connection to the probe ends without the probe's last message.
"""

from __future__ import annotations

RELAY = "relay"

READY = "ready"
NO_PROBE = "no_probe"
"""The process has no probe; `program` is what it runs. The viewer answers with a `word` of `ANSWERS`."""
NOTE = "note"
"""`text` says what the relay waits for."""
FAILED = "failed"
"""The last message: `cause` and `remedy` say why the process cannot be attached to."""
GONE = "gone"
"""`kind` and `detail` say how the process ended, as in `model.attached.target.Disconnect`."""

YES, NO, NEVER = ANSWERS = ("yes", "no", "never")
"""Whether the probe may be put in; "never" is remembered on the machine of the process."""
