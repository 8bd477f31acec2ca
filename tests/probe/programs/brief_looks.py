"""When looks are brief, and what they show: each check has a program of its own, and a reader that looks at it."""

import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402

from gputui.probe.looks import empty_look  # noqa: E402
from gputui.probe.meter import Meter  # noqa: E402
from gputui.probe.torch_reader import TorchReader  # noqa: E402

WHOLE, BRIEF = 2, 3
"""So many whole looks come first, and so many brief ones follow each whole one."""


class Looks:
    """Looks of one reader, as the probe takes them by itself."""

    def __init__(self):
        self.reader = TorchReader()

    def take(self):
        """An inventory, with the owners by address in `owners`."""
        look = empty_look([])
        self.reader.read(torch, "brief", look, Meter(60), may_walk=False)
        self.reader.describe(look)
        assert look["problems"] == look["inventory"]["problems"] == [], look
        inventory = look["inventory"]
        inventory["owners"] = {s["address"]: s["owner"].partition(" (")[0] for s in inventory["storages"]}
        return inventory

    @classmethod
    def settled(cls):
        """Looks that were whole until now; the next may be a brief one."""
        looks = cls()
        for _ in range(WHOLE):
            assert not looks.take()["is_brief"]
        return looks


class Holder:
    """An object with a tensor that lasts, below others."""

    def __init__(self, *shape):
        self.inner = {"first": [torch.ones(*shape, device="cuda")]}


def trained():
    model = torch.nn.Linear(256, 256, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@check
def brief_looks_follow_each_whole_one_and_name_the_same():
    model, optimizer = trained()
    holder = Holder(300, 300)
    address = holder.inner["first"][0].data_ptr()
    looks = Looks.settled()
    for _ in range(BRIEF):
        inventory = looks.take()
        assert inventory["is_brief"]
        assert inventory["owners"][address] == "holder.inner['first'][0]"
        assert inventory["owners"][model.weight.data_ptr()] == "model.weight"
        state = optimizer.state[model.weight]["exp_avg"]
        assert inventory["owners"][state.data_ptr()] == "optimizer.state[model.weight].exp_avg"
    assert not looks.take()["is_brief"]


@check
def what_was_freed_is_not_shown():
    _owners = trained()
    holder = Holder(300, 300)
    looks = Looks.settled()
    address = holder.inner["first"][0].data_ptr()
    assert address in looks.take()["owners"]
    holder.inner.clear()
    inventory = looks.take()
    assert inventory["is_brief"]
    assert address not in inventory["owners"]


@check
def states_that_an_optimizer_makes_anew_are_read():
    model, optimizer = trained()
    looks = Looks.settled()
    assert looks.take()["is_brief"]
    old = optimizer.state[model.weight]["exp_avg"]
    optimizer.state[model.weight]["exp_avg"] = new = torch.zeros_like(old)
    inventory = looks.take()
    assert not inventory["is_brief"]
    assert inventory["owners"][new.data_ptr()] == "optimizer.state[model.weight].exp_avg"
    assert inventory["owners"][old.data_ptr()] == "old"


@check
def parameters_that_moved_are_read():
    model, _optimizer = trained()
    looks = Looks.settled()
    assert looks.take()["is_brief"]
    old = model.weight.data
    model.weight.data = torch.ones(256, 256, device="cuda")
    inventory = looks.take()
    assert inventory["owners"][model.weight.data_ptr()] == "model.weight"
    assert inventory["owners"][old.data_ptr()] == "old"


@check
def a_list_that_grows_is_seen_by_every_look():
    _owners = trained()
    losses = [torch.ones(16, device="cuda") for _ in range(4)]
    looks = Looks()
    lengths = []
    for _ in range(8):
        losses.append(torch.ones(16, device="cuda"))
        lengths += [container["elements"] for container in looks.take()["containers"] if container["name"] == "losses"]
    assert lengths == list(range(5, 13)), lengths


@check
def what_an_exception_keeps_is_named_at_once():
    _owners = trained()
    looks = Looks.settled()
    assert looks.take()["is_brief"]

    def fail():
        kept = torch.ones(500, 500, device="cuda")
        raise ValueError(kept.data_ptr())

    try:
        fail()
    except ValueError as error:
        sys.last_value = error
    try:
        inventory = looks.take()
        assert not inventory["is_brief"]
        assert inventory["owners"][sys.last_value.args[0]] == "kept"
    finally:
        sys.last_value = None


@check
def memory_that_no_variable_near_leads_to_is_searched_for():
    _owners = trained()
    holder = Holder(4, 4)
    looks = Looks.settled()
    holder.inner["second"] = [torch.ones(2000, 2000, device="cuda")]
    inventory = looks.take()
    assert inventory["is_brief"]
    assert inventory["owners"][holder.inner["second"][0].data_ptr()] == "holder.inner['second'][0]"


run()
