"""When looks are brief, and what they show: each check has a program of its own, and a reader that looks at it."""

import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402

from gputui.probe import search  # noqa: E402
from gputui.probe.brief_search import BriefSearch  # noqa: E402
from gputui.probe.looks import empty_look  # noqa: E402
from gputui.probe.meter import Meter  # noqa: E402
from gputui.probe.torch_reader import TorchReader  # noqa: E402

WHOLE, BRIEF = 2, 3
"""So many whole looks come first, and so many brief ones follow each whole one."""


class Looks:
    """Looks of one reader, as the probe takes them by itself."""

    def __init__(self):
        self.reader = TorchReader()
        self.steps = 0

    def take(self, steps=sys.maxsize):
        """An inventory of at most so many steps, with the owners by address in `owners`."""
        return self.described(self.read(steps))

    def read(self, steps):
        look = empty_look([])
        meter = Meter(60, max_steps=steps)
        self.reader.read(torch, "brief", look, meter, may_walk=False)
        self.steps = meter.steps
        return look

    def described(self, look):
        self.reader.describe(look)
        assert look["problems"] == look["inventory"]["problems"] == [], look
        inventory = look["inventory"]
        inventory["owners"] = {s["address"]: s["owner"].partition(" (")[0] for s in inventory["storages"]}
        return inventory

    def take_twice(self, steps):
        """The inventories of two stops of so many steps each, of which the second may be a brief one."""
        first = self.read(steps)
        assert not first["inventory"]["is_brief"]
        assert self.reader.may_be_brief_after(first)
        self.reader.keep_part(first, is_brief_next=True)
        return first["inventory"], self.described(self.read(steps))

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
def what_comes_into_a_remembered_container_is_named_in_brief_looks():
    _owners = trained()
    holder = Holder(8, 8)
    holder.kept = [torch.ones(300, 300, device="cuda") for _ in range(40)]
    looks = Looks.settled()
    for number in range(BRIEF):
        holder.kept[number] = torch.ones(300, 300, device="cuda")
        inventory = looks.take()
        assert inventory["is_brief"]
        names = [inventory["owners"].get(held.data_ptr()) for held in holder.kept]
        assert names == [f"holder.kept[{number}]" for number in range(40)], names


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


def whole_after_brief_ones(looks, steps):
    """The whole inventory that follows brief ones, with time for a part of it."""
    for _ in range(BRIEF):
        assert looks.take()["is_brief"]
    inventory = looks.take(steps)
    assert not inventory["is_brief"]
    assert not inventory["is_complete"]
    return inventory


def with_lists(lengths):
    """A variable for each of these lengths, which holds so many lists of tensors."""
    return {f"list_{length}": [[torch.ones(8, device="cuda")] for _ in range(length)] for length in lengths}


@check
def brief_looks_go_on_where_whole_ones_lack_time():
    model, _optimizer = trained()
    lists = with_lists(range(20, 40))
    looks = Looks.settled()
    part = looks.steps // 2
    for _ in range(3):
        inventory = whole_after_brief_ones(looks, part)
        assert inventory["owners"][model.weight.data_ptr()] == "model.weight"
        assert inventory["owners"][lists["list_39"][38][0].data_ptr()] == "lists['list_39'][38][0]"


@check
def a_list_that_grows_is_seen_where_whole_looks_lack_time():
    _owners = trained()
    kept, _lists = [torch.ones(16, device="cuda") for _ in range(8)], with_lists(range(20, 40))
    looks = Looks.settled()
    part = looks.steps // 2
    whole_after_brief_ones(looks, part)
    kept += [torch.ones(16, device="cuda") for _ in range(8)]
    whole_after_brief_ones(looks, part)
    assert not looks.take(part)["is_brief"]


@check
def a_list_that_is_filled_again_and_again_counts_once():
    _owners = trained()
    filled, longest = [], 12
    looks = Looks()
    kinds = []
    for length in (5, longest, 4, 8, longest, 3, 9, 1, 6, longest, 2, 7):
        filled[:] = [torch.ones(16, device="cuda") for _ in range(length)]
        kinds.append(looks.take()["is_brief"])
    assert sum(kinds) >= 2 * BRIEF, kinds
    filled += [torch.ones(16, device="cuda") for _ in range(longest)]
    after = [looks.take()["is_brief"] for _ in range(BRIEF + 1 + WHOLE)]
    assert after.count(False) >= WHOLE, after


@check
def a_search_in_vain_is_not_repeated_at_the_same_place():
    _owners = trained()
    searches, search = [], BriefSearch.search
    BriefSearch.search = lambda *arguments: searches.append(1) or search(*arguments)
    looks, made = Looks.settled(), []
    try:
        for _ in range(12):
            address = torch._C._cuda_cudaCachingAllocator_raw_alloc(1 << 26, 0)  # as C++ does: no tensor leads to it
            searched = len(searches)
            made.append(looks.take()["is_brief"] and len(searches) - searched)
            torch._C._cuda_cudaCachingAllocator_raw_delete(address)
            while not looks.reader._memory.is_brief_due:
                looks.take()
    finally:
        BriefSearch.search = search
    assert made == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], made


@check
def what_a_custom_function_keeps_is_named():
    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.kept = torch.ones(3000, 3000, device="cuda")
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    model, _optimizer = trained()
    looks = Looks.settled()
    result = Keeping.apply(model(torch.ones(8, 256, device="cuda")))
    inventory = looks.take()
    assert inventory["is_brief"]
    kept = inventory["owners"][result.grad_fn.kept.data_ptr()]
    assert kept == "kept by a saved-tensor hook", kept


@check
def a_long_list_of_new_tensors_is_read_without_a_search():
    _owners = trained()
    looks = Looks.settled()
    searches, search = [], BriefSearch.search
    BriefSearch.search = lambda *arguments: searches.append(1) or search(*arguments)
    made = [torch.ones(256, 1024, device="cuda") for _ in range(100)]
    try:
        inventory = looks.take()
    finally:
        BriefSearch.search = search
    assert inventory["is_brief"]
    assert inventory["owners"][made[99].data_ptr()] == "made[99]"
    assert not searches


class Large:
    """A model with many small layers, and what its optimizer keeps; each step puts the gradients elsewhere."""

    LAYERS = 600

    def __init__(self):
        self.model = torch.nn.ModuleList(torch.nn.Linear(16, 16, bias=False, device="cuda") for _ in range(self.LAYERS))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.step()
        self.optimizer.step()

    def step(self):
        _old = [layer.weight.grad for layer in self.model]  # as long as they live, the new ones are elsewhere
        for layer in self.model:
            layer.weight.grad = torch.ones(16, 16, device="cuda")

    def named(self, inventory):
        """How many of its gradients and states have a name."""
        states = [state["exp_avg"] for state in self.optimizer.state.values()]
        tensors = [*(layer.weight.grad for layer in self.model), *states]
        owners = [inventory["owners"].get(tensor.data_ptr(), "") for tensor in tensors]
        return sum(owner.endswith((".grad", ".exp_avg")) for owner in owners)


@check
def gradients_that_moved_are_recorded_together():
    large = Large()
    looks = Looks.settled()
    looks.take()
    same = looks.steps
    large.step()
    inventory = looks.take()
    assert inventory["is_brief"]
    assert large.named(inventory) == 2 * large.LAYERS
    assert looks.steps < same + large.LAYERS


@check
def brief_looks_name_a_program_that_no_whole_look_has_time_for():
    large = Large()
    looks = Looks()
    looks.take()
    steps = looks.steps // 6
    kinds, named = [], []
    for _ in range(8):
        large.step()
        inventory = looks.take(steps)
        kinds.append((inventory["is_brief"], inventory["is_complete"]))
        named.append(large.named(inventory))
    whole, brief = (False, False), (True, True)
    assert kinds == [*[whole] * WHOLE, *[brief] * BRIEF, whole, brief, brief], kinds
    assert {count for count, kind in zip(named, kinds, strict=True) if kind == brief} == {2 * large.LAYERS}


@check
def a_list_that_grows_beside_a_large_model_is_named_in_each_look():
    large, kept, seen = Large(), [], []
    looks = Looks()
    looks.take()
    steps = looks.steps // 6
    for _ in range(6):
        kept += [torch.ones(32, 8, device="cuda") for _ in range(30)]
        large.step()
        first, inventory = looks.take_twice(steps)
        assert not first["has_all_owned"]
        assert inventory["is_brief"]
        assert large.named(inventory) == 2 * large.LAYERS
        last = kept[-1].data_ptr()
        names = {storage["owner"].partition(" (")[0] for storage in first["storages"] if storage["address"] == last}
        assert names | {inventory["owners"][last]} == {f"kept[{len(kept) - 1}]"}
        seen += [container["elements"] for container in inventory["containers"] if container["name"] == "kept"]
    assert seen == [30, 60, 90, 120, 150, 180]


@check
def what_saved_tensor_hooks_lead_to_is_named_in_each_look():
    model, _optimizer = trained()
    looks = Looks()
    for _ in range(24):
        shared = Holder(600, 600)  # as a checkpoint's frame, to which each of its hooks leads
        packed = [lambda held=shared, number=number: (held, number) for number in range(4)]
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda _, packed=packed: packed.pop(), lambda held: held()[0])
        address = shared.inner["first"][0].data_ptr()
        with hooks:
            loss = model(model(torch.ones(8, 256, device="cuda"))).sum()
        del shared, packed, hooks
        assert looks.take()["owners"][address] == "kept by a saved-tensor hook"
        del loss


@check
def no_names_are_made_for_a_long_list_of_what_models_own():
    large = Large()
    _lists = [[layer.weight for layer in large.model] for _ in range(8)]
    made, named_inside = [], search.named_inside
    search.named_inside = lambda holder, items: made.extend(items) or named_inside(holder, items)
    try:
        inventory = Looks().take()
    finally:
        search.named_inside = named_inside
    assert large.named(inventory) == 2 * large.LAYERS
    assert len(made) < large.LAYERS, len(made)


@check
def parameters_that_only_a_long_list_and_an_optimizer_hold_are_named_by_the_list():
    weights = [torch.nn.Parameter(torch.ones(16, 8, device="cuda")) for _ in range(80)]
    _optimizer = torch.optim.SGD(weights)
    for inventory in (Looks().take(), Looks.settled().take()):
        assert inventory["owners"][weights[79].data_ptr()] == "weights[79]"


run()
