"""The modules that a look gives to activations, against the truth of hooks pushed around each module's forward.

Prints for each model how many of the saved bytes are in the right block of layers, in the right module, and in all.
"""

import re
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from gpt import GPT  # noqa: E402
from looking import print_json  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from resnet import ResNet  # noqa: E402
from unet import UNet  # noqa: E402

from gputui.probe.inventory.activations import assign_modules  # noqa: E402
from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.tensors.autograd import Inputs  # noqa: E402

BLOCK = re.compile(r"^((layers|stages|down|shrink|middle|up)\.\d+|[^.]*)")
"""What people call a block of layers in these models: `layers.3`, `down.0`, `stem`."""


class Truth:
    """By the address of a storage, the modules in whose forward it was saved; its size by address.

    Of layers with checkpoints, only their inputs are saved: hooks inside of them would undo the checkpoints.
    """

    def __init__(self, model):
        self.modules = {}
        self.sizes = {}
        self._inside = []
        for name, module in model.named_modules():
            if getattr(model, "checkpointed", False):
                if BLOCK.match(name)[0] == name and "." in name:
                    module.register_forward_pre_hook(lambda _module, inputs, name=name: self._keep(inputs[0], name))
                continue
            module.register_forward_pre_hook(lambda _module, _inputs, name=name: self._enter(name))
            module.register_forward_hook(lambda _module, _inputs, _output: self._leave())

    def _enter(self, name):
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: self._save(tensor, name), lambda held: held)
        hooks.__enter__()
        self._inside.append(hooks)

    def _leave(self):
        self._inside.pop().__exit__(None, None, None)

    def _keep(self, tensor, name):
        self._save(tensor, name)

    def _save(self, tensor, name):
        storage = tensor.untyped_storage()
        self.modules.setdefault(storage.data_ptr(), set()).add(name)
        self.sizes[storage.data_ptr()] = storage.nbytes()
        return tensor


def block(name):
    return BLOCK.match(name)[0]


def checked(model, *inputs):
    truth = Truth(model)
    output = model(*inputs)
    inventory = take_inventory(torch)
    assign_modules(inventory["by_address"], inventory["graph"], Inputs(inventory["graph"]["edges"]))
    in_block = in_module = total = 0
    wrong = {}
    for storage in inventory["storages"]:
        modules = truth.modules.get(storage["address"])
        if modules is None or storage["category"] != "activation":
            continue
        size_bytes = truth.sizes[storage["address"]]
        module = storage["module"].partition(".")[2]  # without the variable's own name
        total += size_bytes
        in_module += size_bytes * (module in modules)
        if block(module) in map(block, modules):
            in_block += size_bytes
        else:
            wrong[f"{owner_text(storage)}: {module} instead of {sorted(modules)}"] = size_bytes
    del output
    return {"in_block_bytes": in_block, "in_module_bytes": in_module, "total_bytes": total, "wrong": wrong}


def main():
    tokens, images = torch.zeros(4, 64, dtype=torch.long), torch.zeros(2, 3, 32, 32)
    print_json(
        {
            "gpt": checked(GPT(), tokens),
            "gpt_with_checkpointing": checked(GPT(checkpointed=True), tokens),
            "resnet": checked(ResNet(), images),
            "unet": checked(UNet(), images),
        }
    )


if __name__ == "__main__":
    main()
