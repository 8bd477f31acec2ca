"""Which categories of memory the probe treats alike: values of `gputui.model.attached.tensors.Category`."""

from __future__ import annotations

WEIGHTS = frozenset({"parameter"})
"""What an optimizer changes, and what a copy of the model copies."""
STAYING = WEIGHTS | {"optimizer_state", "buffer"}
"""What keeps its place for as long as it lives."""
OWNED = STAYING | {"gradient"}
"""What belongs to a model or to its optimizer, whatever else holds it."""
