"""The categories of memory that the probe tells apart, and those that it treats alike.

They are values of `gputui.model.attached.tensors.Category`.
"""

from __future__ import annotations

PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER = "parameter", "gradient", "optimizer_state", "buffer"
ACTIVATION, KV_CACHE, WORKSPACE, OTHER = "activation", "kv_cache", "workspace", "other"

WEIGHTS = frozenset({PARAMETER})
"""What an optimizer changes, and what a copy of the model copies."""
STAYING = WEIGHTS | {OPTIMIZER_STATE, BUFFER}
"""What keeps its place for as long as it lives."""
OWNED = STAYING | {GRADIENT}
"""What belongs to a model or to its optimizer, whatever else holds it."""
