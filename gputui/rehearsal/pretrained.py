"""Models of transformers whose weights need not be here: made from their configuration."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import Any, Callable

import torch

from .tensors import HOST, META, DeviceTensor

MODULE = "transformers.modeling_utils"
READ_ANYWAY = ("state_dict", "quantization_config", "gguf_file", "output_loading_info")
"""Arguments with which what is loaded is not what the configuration says."""


class WithoutWeights(importlib.abc.MetaPathFinder):
    """Has `from_pretrained` make its tensors from the configuration, from when the program imports transformers on.

    `made` are the names of the models.
    """

    def __init__(self) -> None:
        self.made: list[str] = []

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> Any:
        """As Python's own finders; the module is changed once it has run."""
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # else the order of the tensors is another each time
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                kind = module.PreTrainedModel
                kind.from_pretrained = classmethod(self._loading(kind.from_pretrained.__func__))

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

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


def _weights(cls: Any, config: Any) -> dict[str, Any]:
    """All tensors of a model, in the precision of which its configuration says that they are saved."""
    saved_in = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
    with torch.device("meta"):
        model = cls(config)
    others = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    others -= {name for name, _ in model.named_parameters()}  # there under another name, as a tied head is
    return {
        name: DeviceTensor(
            torch.empty(tensor.shape, dtype=saved_in if tensor.is_floating_point() else tensor.dtype, device=META), HOST
        )
        for name, tensor in model.state_dict().items()
        if name not in others
    }
