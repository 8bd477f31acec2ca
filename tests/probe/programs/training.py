"""A training loop with looks at its memory: training.py CASE..., where a case is MODEL,OPTIMIZER and any
of amp, checkpoint and backward (also look inside backward).
"""

import contextlib
import gc
import json
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from bookkeeping import DEVICE, ON_CUDA, Book  # noqa: E402
from gpt import GPT  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from resnet import ResNet  # noqa: E402

from gputui.probe.looks.torch_reader import TorchReader  # noqa: E402

torch.backends.cudnn.enabled = False
STEPS_IN_TURN = 6
NOTEWORTHY_BYTES = 64
"""Smaller tensors may stay without a name for some looks: such as the scale of a `GradScaler`, once it is made."""
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
}


def batch_for(name):
    if name == "gpt":
        tokens = torch.zeros(4, 65, dtype=torch.long, device=DEVICE)
        return tokens[:, :-1], tokens[:, 1:]
    return torch.zeros(8, 3, 64, 64, device=DEVICE), torch.zeros(8, dtype=torch.long, device=DEVICE)


def loss_of(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def inner_module(model):
    """A module whose forward runs while other results wait: those of earlier layers, or of a parallel branch."""
    return model.layers[2].mlp if isinstance(model, GPT) else model.stages[1].shortcut


def train(name, chosen, options):
    model = GPT(checkpointed="checkpoint" in options) if name == "gpt" else ResNet()
    model.to(DEVICE)
    optimizer = OPTIMIZERS[chosen](model.parameters())
    scaler = torch.amp.GradScaler(DEVICE, enabled="amp" in options)
    reader = TorchReader() if "in turn" in options else None
    book = Book(model, optimizer, knows_saved="recorded" in options, reader=reader)
    book.watch()
    book.look("before")
    looks = []

    def look_in_forward(module, inputs):
        book.note(*inputs)
        if looks:  # not when a checkpoint recomputes it
            looks.pop()("in forward")

    def look_in_backward(module, inputs, output):
        if output.requires_grad and "backward" in options:
            output.register_hook(lambda gradient: (book.note(gradient), book.look("in backward"), None)[-1])

    inner_module(model).register_forward_pre_hook(look_in_forward)
    inner_module(model).register_forward_hook(look_in_backward)
    recording = torch.autograd.graph.saved_tensors_hooks(book.pack, lambda tensor: tensor)
    for _ in range(STEPS_IN_TURN if reader else 2):
        inputs, targets = batch_for(name)
        book.note(inputs, targets)
        looks[:] = [book.look]
        noting = recording if "recorded" in options else contextlib.nullcontext()
        with torch.autocast(DEVICE, torch.bfloat16, enabled="amp" in options), noting:
            outputs = model(inputs)
            loss = loss_of(outputs, targets)
        scaled = scaler.scale(loss)
        book.note(loss, scaled, *vars(scaler).values())
        book.look("after forward")
        book.look("after forward, scanned", "scan")
        optimizer.zero_grad()
        scaled.backward()
        book.look("between backward and step")
        scaler.step(optimizer)
        scaler.update()
        book.look("after step")
    return book


def cases():
    """Run every case with a hook that notes each saved tensor; without one, like an ordinary program; and once more
    with looks as the probe takes them by itself, each after the last.
    """
    for case in sys.argv[1:]:
        name, chosen, *options = case.split(",")
        for variant in ("recorded", "plain", "in turn"):
            book = train(name, chosen, [*options, variant])
            yield (
                f"{case},{variant}",
                {
                    "moments": book.moments,
                    "names": sorted(
                        owner_text(s) for s in book.last["storages"] if s["size_bytes"] >= NOTEWORTHY_BYTES
                    ),
                },
            )
            del book
            gc.collect()


json.dump({"cuda": ON_CUDA, "cases": dict(cases())}, sys.stdout)
