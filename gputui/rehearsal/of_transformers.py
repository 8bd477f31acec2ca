"""Changes of transformers in a rehearsal: models are made from their configuration, and texts have the most tokens."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import threading
from typing import Any, Callable

import torch

from .tensors import HOST, META, DeviceTensor

MODELS, GENERATION = "transformers.modeling_utils", "transformers.generation.utils"
READ_ANYWAY = ("state_dict", "quantization_config", "gguf_file", "output_loading_info")
"""Arguments with which a model is loaded as the program says: the configuration does not tell what it is then."""


class ChangedTransformers(importlib.abc.MetaPathFinder):
    """Changes transformers when the program imports it. `made` are the names of models whose weights were not read."""

    def __init__(self) -> None:
        self.made: list[str] = []
        os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # else tensors are made in another order each time
        self._changes = {MODELS: self._make_models, GENERATION: _end_at_the_length}

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> Any:
        """Find a module of `_changes` as Python does, and change it once it has run; None for any other."""
        change = self._changes.pop(fullname, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _make_models(self, module: Any) -> None:
        kind = module.PreTrainedModel
        kind.from_pretrained = classmethod(self._loading(kind.from_pretrained.__func__))

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def from_pretrained(cls: Any, name: Any, *args: Any, config: Any = None, **options: Any) -> Any:
            if name is None or args or any(options.get(option) for option in READ_ANYWAY):
                return load(cls, name, *args, config=config, **options)
            if config is None or isinstance(config, str):
                config, options = cls.config_class.from_pretrained(config or name, return_unused_kwargs=True, **options)
            if getattr(config, "quantization_config", None):
                return load(cls, name, config=config, **options)
            self.made.append(str(name))
            return load(cls, None, config=config, state_dict=_weights(cls, config), **options)

        return from_pretrained


def _end_at_the_length(module: Any) -> None:
    """Let generation go on to the longest length: whether a text ends earlier depends on values, and there are none."""
    mixin, criterion, here = module.GenerationMixin, module.MaxLengthCriteria, threading.local()
    is_long = criterion.__call__

    def noted(self: Any, tokens: Any, *args: Any, **options: Any) -> Any:
        here.is_long = tokens.shape[1] >= self.max_length
        return is_long(self, tokens, *args, **options)

    def goes_on(*_: Any, **__: Any) -> bool:
        is_over = getattr(here, "is_long", False)
        here.is_long = False
        return not is_over

    criterion.__call__ = noted
    mixin._has_unfinished_sequences = goes_on


def _weights(cls: Any, config: Any) -> dict[str, Any]:
    """All tensors of a model in host memory, without data, in the precision that its configuration says."""
    saved_in = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
    with torch.device("meta"):
        model = cls(config)
    others = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    others -= {name for name, _ in model.named_parameters()}  # second names, as of a tied head
    return {
        name: DeviceTensor(
            torch.empty(tensor.shape, dtype=saved_in if tensor.is_floating_point() else tensor.dtype, device=META), HOST
        )
        for name, tensor in model.state_dict().items()
        if name not in others
    }
