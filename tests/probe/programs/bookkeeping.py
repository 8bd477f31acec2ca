"""What a program knows about its own tensors, and how far an inventory agrees with it."""

import torch
from owner_texts import owner_text

from gputui.probe.inventory.inventory import take_inventory
from gputui.probe.looks.stops import empty_look
from gputui.probe.pace.meter import Meter

ON_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if ON_CUDA else "cpu"
OWNED = ("parameter", "gradient", "buffer", "optimizer_state")


def address_of(tensor):
    return torch._C._data_address(tensor)


def live_blocks():
    """Size in bytes and requested bytes of the live blocks, by address."""
    segments = torch._C._cuda_memorySnapshot(None)["segments"]
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
    return {block["address"]: (block["size"], block["requested_size"]) for block in blocks}


def by_category(storages):
    """Bytes on the device for each category."""
    totals = dict.fromkeys((*OWNED, "activation", "other"), 0)
    for storage in storages:
        if (storage["device"] >= 0) == ON_CUDA:
            totals[storage["category"]] += storage["size_bytes"]
    return totals


class Book:
    """The program's own record: what a model and an optimizer own, and the tensors that pass through."""

    def __init__(self, model, optimizer, knows_saved, reader=None):
        self.model = model
        self.optimizer = optimizer
        self.knows_saved = knows_saved
        self.reader = reader
        """Takes the looks as the probe does, one after another."""
        self.passing = {}
        self.moments = []
        self.last = None

    def note(self, *tensors):
        """Results, inputs and saved tensors: activations, or other tensors if they need no gradient."""
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                self.passing[address_of(tensor)] = tensor.untyped_storage().nbytes()

    def pack(self, tensor):
        self.note(tensor)
        return tensor

    def watch(self):
        """Note the inputs and the output of every module."""
        for module in self.model.modules():
            module.register_forward_hook(lambda module, inputs, output: self.note(*inputs, output))

    def owned(self):
        """Name, category and size in bytes, by address."""
        named = {}

        def note(tensor, name, category):
            named[address_of(tensor)] = (name, category, tensor.untyped_storage().nbytes())

        for name, parameter in self.model.named_parameters():
            note(parameter, f"model.{name}", "parameter")
            if parameter.grad is not None:
                note(parameter.grad, f"model.{name}.grad", "gradient")
            for key, state in self.optimizer.state.get(parameter, {}).items():
                if isinstance(state, torch.Tensor):
                    note(state, f"optimizer.state[model.{name}].{key}", "optimizer_state")
        for name, buffer in self.model.named_buffers():
            note(buffer, f"model.{name}", "buffer")
        return named

    def look(self, moment, how="walk"):
        """Take an inventory and compare it, block by block, with what the program knows."""
        self.last = inventory = self.taken(how)
        storages = {storage["address"]: storage for storage in inventory["storages"]}
        owned = self.owned()
        sizes = self.sizes(owned)
        wrong = [self.disagreement(storage, owned) for storage in storages.values() if storage["address"] in sizes]
        wrong += [f"{name} was not found" for address, (name, *_) in owned.items() if address not in storages]
        known = {(known["device"], known["size_bytes"]): known["category"] for known in inventory["known_sizes"]}
        rest = {address: size for address, size in sizes.items() if address not in storages}
        by_size = {"workspace": 0, "activation": 0, None: 0}
        for size, requested in rest.values():
            by_size[known.get((0, requested))] += size
        total = sum(size for size, _ in sizes.values())
        self.moments.append(
            {
                "moment": moment,
                "total_bytes": total,
                "unattributed_bytes": by_size[None],
                "workspace_bytes": by_size["workspace"],
                "known_by_size_bytes": by_size["activation"],
                "unattributed_sizes": sorted(size for size, _ in rest.values())[-8:],
                "wrong": [sentence for sentence in wrong if sentence],
                "dead": [
                    owner_text(s)
                    for s in storages.values()
                    if ON_CUDA and s["device"] >= 0 and s["address"] not in sizes
                ],
                "by_category": by_category(storages.values()),
                "unnamed_bytes": sum(s["size_bytes"] for s in storages.values() if owner_text(s).startswith("unnamed")),
                "problems": inventory["problems"],
            }
        )

    def taken(self, how):
        """An inventory; by the reader of looks with what the looks before have found."""
        if self.reader is None:
            return take_inventory(torch, how)
        look = empty_look([])
        self.reader.read(torch, how, look, Meter(float("inf")), may_walk=False)
        self.reader.describe(look)
        assert look["problems"] == [], look["problems"]
        return look["inventory"]

    def sizes(self, owned):
        """Size and requested bytes to explain, by address: the allocator's live blocks, or on the CPU what is owned."""
        if ON_CUDA:
            return live_blocks()
        return {address: (size_bytes, size_bytes) for address, (*_, size_bytes) in owned.items()}

    def disagreement(self, storage, owned):
        reported = (owner_text(storage), storage["category"], storage["size_bytes"])
        expected = owned.get(storage["address"])
        if expected is not None:
            return "" if reported == expected else f"{expected} was called {reported}"
        if storage["category"] in OWNED:
            return f"{reported} has no owner in the program"
        is_ours = self.passing.get(storage["address"]) is not None or (storage["saved_by"] and not self.knows_saved)
        if not is_ours:
            return f"{reported} is unknown to the program: {storage['shape']} {storage['saved_by']}"
        return ""
