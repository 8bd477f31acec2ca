"""The bytes of a model's weights on a device of a server, from its files where they say it, else from its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputui.errors import GputuiError
from gputui.explain.serving.ahead.architecture import Architecture
from gputui.explain.serving.ahead.elements import Elements, elements_of
from gputui.explain.serving.ahead.quantization import (
    FLOATS,
    ON_LOADING,
    STORED_WIDTHS,
    WIDTHS,
    Quantization,
    stored_quantization,
)
from gputui.model.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights on one device (`bytes`); `source` says in a few words from what they were counted."""

    bytes: int
    parameters: int
    dtype: str
    quantization: str
    source: str
    is_counted: bool
    """Whether the bytes are from the shapes of all tensors, or from the index that sums them up."""


def weights_of(checkpoint: Checkpoint, model: Architecture, dtype: str, chosen: str | None, devices: int) -> Weights:
    """The weights on one of `devices` devices. Raises GputuiError for an unknown quantisation without an index."""
    width, stored = WIDTHS[dtype], stored_quantization(model.quantization)
    on_loading = ON_LOADING.get(chosen or "") if not model.quantization else None
    quantization = Quantization(chosen or "", on_loading) if on_loading else stored
    here, whole = elements_of(model, devices), elements_of(model, 1)
    share = _bytes(here, width, quantization) / _bytes(whole, width, quantization)
    known = None if on_loading else _stored_bytes(checkpoint, model, width)
    if known is None:
        if model.quantization and stored is None:
            name = str(model.quantization.get("quant_method"))[:40]
            cause = f"How large weights quantised with {name} are is not known without their index."
            raise GputuiError(cause, "Fetch model.safetensors.index.json into the model's folder.")
        source, size = "from config.json", _bytes(here, width, quantization)
    else:
        source = "from their headers" if checkpoint.tensors else "from their index"
        size = known * share
    return Weights(
        bytes=round(size),
        parameters=_parameters(checkpoint, whole) if not model.quantization else whole.total,
        dtype=dtype,
        quantization=quantization.name if quantization else "",
        source=source,
        is_counted=known is not None,
    )


def _bytes(elements: Elements, width: int, quantization: Quantization | None) -> float:
    narrow = quantization.width if quantization else width
    linear = width if quantization and quantization.only_experts else narrow
    return elements.linear * linear + elements.experts * narrow + (elements.vocabulary + elements.others) * width


def _stored_bytes(checkpoint: Checkpoint, model: Architecture, width: int) -> float | None:
    """The bytes after loading, from the files' headers or index; None where there are neither."""
    tensors = checkpoint.tensors
    if tensors is not None:
        return sum(_loaded(kind, width) for kind in (tensors.matrices, tensors.vocabulary, tensors.vectors))
    if checkpoint.stored_bytes is None:
        return None
    stored_width = WIDTHS.get(model.dtype, width)
    return checkpoint.stored_bytes * (1 if model.quantization else width / stored_width)


def _loaded(elements: Mapping[str, int], width: int) -> float:
    return sum(count * (width if dtype in FLOATS else STORED_WIDTHS.get(dtype, 1)) for dtype, count in elements.items())


def _parameters(checkpoint: Checkpoint, whole: Elements) -> int:
    tensors = checkpoint.tensors
    if tensors is None:
        return whole.total
    return sum(sum(kind.values()) for kind in (tensors.matrices, tensors.vocabulary, tensors.vectors))
