"""What looks show one after another: each check has a program of its own, and a reader that looks at it."""

import sys
import warnings
from collections import Counter

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from reader_looks import Looks  # noqa: E402

SOME = 4
"""So many looks are taken before something changes: by then a look takes from the last ones what it knows."""


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
def each_look_names_the_same():
    model, optimizer = trained()
    holder = Holder(300, 300)
    address = holder.inner["first"][0].data_ptr()
    looks = Looks(SOME)
    for _ in range(SOME):
        inventory = looks.take()
        assert inventory["owners"][address] == "holder.inner['first'][0]"
        assert inventory["owners"][model.weight.data_ptr()] == "model.weight"
        state = optimizer.state[model.weight]["exp_avg"]
        assert inventory["owners"][state.data_ptr()] == "optimizer.state[model.weight].exp_avg"


@check
def what_was_freed_is_not_shown():
    _owners = trained()
    holder = Holder(300, 300)
    looks = Looks(SOME)
    address = holder.inner["first"][0].data_ptr()
    assert address in looks.take()["owners"]
    holder.inner.clear()
    inventory = looks.take()
    assert address not in inventory["owners"]


@check
def states_that_an_optimizer_makes_anew_are_read():
    model, optimizer = trained()
    looks = Looks(SOME)
    old = optimizer.state[model.weight]["exp_avg"]
    optimizer.state[model.weight]["exp_avg"] = new = torch.zeros_like(old)
    inventory = looks.take()
    assert inventory["owners"][new.data_ptr()] == "optimizer.state[model.weight].exp_avg"
    assert inventory["owners"][old.data_ptr()] == "old"


@check
def parameters_that_moved_are_read():
    model, _optimizer = trained()
    looks = Looks(SOME)
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
def what_comes_into_a_remembered_container_is_named_at_once():
    _owners = trained()
    holder = Holder(8, 8)
    holder.kept = [torch.ones(300, 300, device="cuda") for _ in range(40)]
    looks = Looks(SOME)
    for number in range(SOME):
        holder.kept[number] = torch.ones(300, 300, device="cuda")
        inventory = looks.take()
        names = [inventory["owners"].get(held.data_ptr()) for held in holder.kept]
        assert names == [f"holder.kept[{number}]" for number in range(40)], names


@check
def lists_of_a_dictionary_are_read_one_by_one_and_what_is_new_in_each_comes_first():
    _owners = trained()
    holder = Holder(8, 8)
    holder.history = {key: [row() for _ in range(300)] for key in "abc"}
    looks, named = Looks(), 0
    for _ in range(30):
        owners = looks.take(steps=600)["owners"]
        looks.climb()
        before, named = named, sum(name.startswith("holder.history[") for name in owners.values())
        assert named >= before, (named, before)
        if named == 900:
            break
    assert named == 900, named
    for rows in holder.history.values():
        rows += [row() for _ in range(4)]
    inventory = looks.take(steps=600)
    for key, rows in holder.history.items():
        names = [inventory["owners"].get(held.data_ptr()) for held in rows]
        assert names == [f"holder.history[{key!r}][{number}]" for number in range(304)], names[-5:]
    lengths = {container["name"]: container["elements"] for container in inventory["containers"]}
    assert lengths["holder.history['a']"] == 304, lengths


def row():
    return torch.ones(100, 100, device="cuda")


@check
def a_list_has_the_name_of_the_function_that_made_it_in_the_memory_of_an_earlier_one():
    looks = Looks()

    def train():
        losses = [row() for _ in range(40)]
        assert set(elements_of(looks)) == {"losses"}
        return id(losses)

    def validate(address):
        kept = [[]]
        while id(kept[-1]) != address and len(kept) < 10_000:
            kept.append([])
        images = kept.pop()
        assert id(images) == address
        images += [row() for _ in range(40)]
        return elements_of(looks)

    assert validate(train()) == {"images": 40}


@check
def a_list_that_got_another_variable_loses_the_name_of_its_first():
    looks = Looks()
    history = [row() for _ in range(40)]
    assert elements_of(looks) == {"history": 40}
    archive, history = history, [row() for _ in range(4)]
    assert elements_of(looks) == {"archive": 40, "history": 4}
    del archive, history


@check
def a_list_that_outlives_its_function_has_the_name_of_what_holds_it():
    looks, holder = Looks(), Holder(8, 8)

    def train():
        holder.kept = losses = [row() for _ in range(40)]
        assert elements_of(looks)["losses"] == len(losses)

    train()
    assert elements_of(looks)["holder.kept"] == 40


def elements_of(looks):
    """How many elements each list has by the names of the second of two looks: the first remembers the list."""
    looks.take()
    owners = looks.take()["owners"].values()
    return Counter(name.partition("[")[0] for name in owners if "[" in name)


@check
def what_an_exception_keeps_is_named_at_once():
    _owners = trained()
    looks = Looks(SOME)

    def fail():
        kept = torch.ones(500, 500, device="cuda")
        raise ValueError(kept.data_ptr())

    try:
        fail()
    except ValueError as error:
        sys.last_value = error
    try:
        inventory = looks.take()
        assert inventory["owners"][sys.last_value.args[0]] == "kept"
    finally:
        sys.last_value = None


@check
def memory_that_no_variable_near_leads_to_is_searched_for():
    _owners = trained()
    holder = Holder(4, 4)
    looks = Looks(SOME)
    holder.inner["second"] = [torch.ones(2000, 2000, device="cuda")]
    inventory = looks.take()
    assert inventory["owners"][holder.inner["second"][0].data_ptr()] == "holder.inner['second'][0]"


@check
def what_replaces_nothing_in_a_short_container_is_named_at_once():
    _owners = trained()
    by_key, in_list = {"last": None}, [None]
    looks = Looks(SOME)
    by_key["last"] = in_list[0] = torch.ones(100, 100, device="cuda")
    inventory = looks.take()
    assert inventory["owners"][in_list[0].data_ptr()] in {"by_key['last']", "in_list[0]"}, inventory["owners"]


def with_lists(lengths):
    """A variable for each of these lengths, which holds so many lists of tensors."""
    return {f"list_{length}": [[torch.ones(8, device="cuda")] for _ in range(length)] for length in lengths}


@check
def names_stay_where_looks_lack_time():
    model, _optimizer = trained()
    lists = with_lists(range(20, 40))
    looks = Looks(SOME)
    part = looks.steps // 2
    for _ in range(3 * SOME):
        inventory = looks.take(part)
        assert inventory["owners"][model.weight.data_ptr()] == "model.weight"
        assert inventory["owners"][lists["list_39"][38][0].data_ptr()] == "lists['list_39'][38][0]"


@check
def what_takes_the_place_of_another_by_the_same_name_has_its_own_size():
    model = torch.nn.Module()
    model.register_buffer("window", torch.ones(1_000_000, device="cuda"))
    looks = Looks(SOME)
    address = model.window.data_ptr()
    model.window = None
    model.window = torch.ones(1_000_200, device="cuda")
    assert model.window.data_ptr() == address
    entry = next(storage for storage in looks.take()["storages"] if storage["address"] == address)
    assert (entry["size_bytes"], entry["shape"]) == (4_000_800, [1_000_200]), entry


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
    looks = Looks(SOME)
    result = Keeping.apply(model(torch.ones(8, 256, device="cuda")))
    inventory = looks.take()
    kept = inventory["owners"][result.grad_fn.kept.data_ptr()]
    assert kept == "kept by a saved-tensor hook", kept


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
    looks = Looks(SOME)
    looks.take()
    same = looks.steps
    large.step()
    inventory = looks.take()
    assert large.named(inventory) == 2 * large.LAYERS
    assert looks.steps < same + large.LAYERS


@check
def a_program_that_no_look_has_time_for_is_named_all_the_same():
    large = Large()
    looks = Looks(1)
    whole = looks.steps
    named = []
    for number in range(5 * SOME):  # each ends at another place
        large.step()
        named.append(large.named(looks.take(whole // 4 + 10 * number)))
    assert set(named[SOME:]) == {2 * large.LAYERS}, named


@check
def parameters_that_a_graph_saves_are_no_activations_where_looks_lack_time():
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16, device="cuda") for _ in range(200)))
    looks = Looks(1)
    whole, categories = looks.steps, set()
    for number in range(5 * SOME):
        _loss = model(torch.ones(4, 16, device="cuda", requires_grad=True)).sum()
        by_address = {s["address"]: s for s in looks.take(whole // 8 + 10 * number)["storages"]}
        categories |= {by_address[p.data_ptr()]["category"] for p in model.parameters() if p.data_ptr() in by_address}
    assert categories == {"parameter"}, categories


class Adapted(torch.nn.Module):
    """A layer with an adapter for each tenant."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(16, 16, device="cuda")
        self.adapters = torch.nn.ModuleDict()

    def add(self, tenant):
        self.adapters[f"tenant{tenant}"] = torch.nn.Linear(16, 4, bias=False, device="cuda")


@check
def adapters_that_are_added_to_a_model_that_looks_read_in_part_are_named():
    model = torch.nn.Sequential(*(Adapted() for _ in range(4)))
    looks, missing = Looks(), []
    for tenant in range(400):
        for layer in model:
            layer.add(tenant)
        if tenant >= 300 and tenant % 4 == 0:
            owners = looks.take(1000)["owners"]
            expected = {
                adapter.weight.data_ptr(): f"model.{number}.adapters.{key}.weight"
                for number, layer in enumerate(model)
                for key, adapter in layer.adapters.items()
            }
            missing.append(sum(owners.get(address) != name for address, name in expected.items()))
    assert missing[2] < missing[0], missing
    assert set(missing[-8:]) == {0}, missing


@check
def a_list_that_grows_beside_a_large_model_is_named_in_each_look():
    large, kept, seen = Large(), [], []
    looks = Looks(1)
    steps = looks.steps // 4
    for _ in range(2 * SOME):
        kept += [torch.ones(32, 8, device="cuda") for _ in range(30)]
        large.step()
        inventory = looks.take(steps)
        assert inventory["owners"].get(kept[-1].data_ptr()) == f"kept[{len(kept) - 1}]"
        seen += [container["elements"] for container in inventory["containers"] if container["name"] == "kept"]
    assert seen == list(range(30, 30 * 2 * SOME + 1, 30)), seen


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
def parameters_that_only_a_long_list_and_an_optimizer_hold_are_named_by_the_list():
    weights = [torch.nn.Parameter(torch.ones(16, 8, device="cuda")) for _ in range(80)]
    _optimizer = torch.optim.SGD(weights)
    for inventory in (Looks().take(), Looks(SOME).take()):
        assert inventory["owners"][weights[79].data_ptr()] == "weights[79]"


if __name__ == "__main__":
    run()
