"""The programs of `attach/programs/sick.py` and what must be said of each: one table for live ones and recordings."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = re.compile(r"\b(?:sick|train)\.py:([\d, ]+) in \w+")
"""A line of such a program, or several of one function; recorded programs are called train.py."""


@dataclass(frozen=True)
class Sickness:
    """The finding that names it, the holder, words of the line that made it ("" if no line is to blame), the remedy.

    `call` is in a line that the evidence names.
    """

    kind: str
    holder: str
    line: str
    remedy: str
    call: str = ""


SICK = {
    "forgotten_no_grad": Sickness("leak", "scores", "scores = scores + model", "torch.no_grad()"),
    "losses_kept": Sickness("leak", "losses", "losses.append", "loss.item()"),
    "predictions_kept": Sickness("leak", "predictions", "predictions.append", "prediction.cpu()"),
    "graph_kept": Sickness("kept_graph", "first", "first = model(inputs())", "first.detach()"),
    "graph_kept_idle": Sickness("kept_graph", "out", "out = model(inputs())", "out.detach()"),
    "gradients_kept": Sickness("kept_gradients", "", "", "zero_grad(set_to_none=True)"),
    "gradients_kept_idle": Sickness("kept_gradients", "", "", "wide.zero_grad(set_to_none=True)"),
    "old_optimizer": Sickness("kept_by_optimizer", "adam", "", "Create the optimizer again"),
    "second_model": Sickness("second_model", "ema", "", "ema.cpu()"),
    "replay_buffer": Sickness("container_tensors", "buffer", "buffer.append", "host memory"),
    "closure": Sickness("leak", "outputs", "outputs.append", "output.cpu()"),
    "class_attribute": Sickness("leak", "Log.seen", "Log.seen.append", ".cpu()"),
    "exception_kept": Sickness("kept_by_exception", "last_error", "", "del last_error"),
    "growing_lengths": Sickness("retries", "tensors never took more than", "", "expandable_segments:True"),
    "cache_emptied": Sickness(
        "churn", "", "", "torch.cuda.empty_cache() out of the training loop", call="torch.cuda.empty_cache()"
    ),
}
