"""Names and categories that an inventory gives to the tensors of programs written in different styles."""

import functools
import gc
import json
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.looks.messages import look_frame  # noqa: E402
from gputui.probe.looks.stops import empty_look  # noqa: E402
from gputui.probe.looks.torch_reader import TorchReader  # noqa: E402
from gputui.probe.names.memory import Memory  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402

ON_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if ON_CUDA else "cpu"


def look(how="walk", memory=None):
    """Owner and category by shape; every check uses its own shapes. `memory` is what one look keeps for the next."""
    return {
        tuple(s["shape"]): (owner_text(s).partition(" (")[0], s["category"])
        for s in take_inventory(torch, how, memory=memory)["storages"]
    }


def entry(shape, how="walk"):
    storages = [s for s in take_inventory(torch, how)["storages"] if s["shape"] == list(shape)]
    assert len(storages) == 1, storages
    return storages[0]


def zeros(*shape, **options):
    return torch.zeros(*shape, device=DEVICE, **options)


class Trainer:
    def __init__(self, inputs):
        self.network = torch.nn.Linear(inputs, 3, device=DEVICE)
        self.chosen = {"main": torch.optim.SGD(self.network.parameters(), momentum=0.9)}
        self.held = zeros(inputs, 2)

    def fit(self, inputs):
        self.network(zeros(1, inputs)).sum().backward()
        self.chosen["main"].step()
        return look()


class Step:
    def __init__(self, kept):
        self.kept = kept

    def __call__(self):
        return self.kept


def later(in_closure):
    return lambda: in_closure


@check
def what_functions_in_a_list_hold_is_named_after_the_list():
    pending = [later(zeros(131, 2)), functools.partial(later, in_closure=zeros(132, 2)), Step(zeros(133, 2)).__call__]
    by_shape = look()
    assert by_shape[131, 2] == ("pending[0].in_closure", "other")
    assert by_shape[132, 2] == ("pending[1].in_closure", "other")
    assert by_shape[133, 2] == ("pending[2].kept", "other")
    del pending


@check
def an_attribute_is_named_after_the_variable_that_leads_to_it():
    trainer = Trainer(101)
    by_shape = trainer.fit(101)
    assert by_shape[101, 2] == ("trainer.held", "other")
    names = [owner_text(s) for s in take_inventory(torch)["storages"] if s["shape"] == [3, 101]]
    assert sorted(names) == [
        "trainer.chosen['main'].state[trainer.network.weight].momentum_buffer",
        "trainer.network.weight",
        "trainer.network.weight.grad",
    ]


@check
def an_attribute_of_self_is_named_without_self():
    by_shape = Trainer(102).fit(102)
    assert by_shape[102, 2] == ("held", "other")


@check
def a_model_in_a_closure_is_found():
    def make_step():
        model = torch.nn.Linear(103, 103, bias=False, device=DEVICE)

        def step():
            return model.weight

        return step

    step = make_step()
    assert look()[103, 103] == ("model.weight", "parameter")
    del step


@check
def a_model_in_a_partial_function_is_found():
    call = functools.partial(torch.nn.functional.linear, weight=zeros(104, 1))
    assert look()[104, 1] == ("weight", "other")
    del call


@check
def elements_are_named_with_their_index_or_key():
    outputs = [zeros(105, n) for n in range(1, 4)]
    batch = {"image": zeros(106, 1), 7: (zeros(106, 2),)}
    by_shape = look()
    assert by_shape[105, 3] == ("outputs[2]", "other")
    assert by_shape[106, 1] == ("batch['image']", "other")
    assert by_shape[106, 2] == ("batch[7][0]", "other")
    del outputs, batch


@check
def a_tensor_is_named_with_variable_file_line_and_function():
    logits = zeros(107, 2, requires_grad=True)[:, :1] * 2
    assert owner_text(entry([107, 1])).startswith("logits (naming.py:")
    assert owner_text(entry([107, 1])).endswith(" in a_tensor_is_named_with_variable_file_line_and_function)")
    assert entry([107, 1])["category"] == "activation"
    del logits


@check
def views_are_counted_once():
    base = zeros(108, 4)
    views = [base[1:], base.t(), base.view(-1)]
    assert len([s for s in take_inventory(torch)["storages"] if s["size_bytes"] == 108 * 4 * 4]) == 1
    del views


@check
def tied_weights_are_counted_once():
    model = torch.nn.ModuleDict({"first": torch.nn.Linear(109, 109), "second": torch.nn.Linear(109, 109)})
    model["second"].weight = model["first"].weight
    assert owner_text(entry([109, 109])) == "model.first.weight"


@check
def copies_in_full_precision_are_optimizer_state():
    model = torch.nn.Linear(110, 110, bias=False, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD([parameter.detach().float().requires_grad_() for parameter in model.parameters()])
    by_dtype = {
        s["dtype"]: (owner_text(s), s["category"])
        for s in take_inventory(torch)["storages"]
        if s["shape"] == [110, 110]
    }
    assert by_dtype == {
        "bfloat16": ("model.weight", "parameter"),
        "float32": ("optimizer.param_groups[0].params[0]", "optimizer_state"),
    }
    del optimizer


@check
def a_tensor_in_an_optimizer_is_a_parameter():
    weight = zeros(111, 1, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    weight.sum().backward()
    optimizer.step()
    names = {owner_text(s): s["category"] for s in take_inventory(torch)["storages"] if s["shape"] == [111, 1]}
    assert names == {
        "weight": "parameter",
        "weight.grad": "gradient",
        "optimizer.state[weight].exp_avg": "optimizer_state",
        "optimizer.state[weight].exp_avg_sq": "optimizer_state",
    }


class Wrapper(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


@check
def a_wrapped_model_keeps_its_own_name():
    wrapped = Wrapper(torch.nn.Linear(112, 112))
    model = wrapped.module
    assert owner_text(entry([112, 112])) == "model.weight"
    del model
    assert owner_text(entry([112, 112])) == "wrapped.module.weight"


@check
def a_submodule_in_a_variable_is_named_after_the_whole_model():
    backbone = torch.nn.Linear(113, 113)
    model = torch.nn.Sequential(backbone, torch.nn.Linear(113, 2))
    assert owner_text(entry([113, 113])) == "model.0.weight"
    del model


@check
def a_compiled_model_is_named_without_the_compilers_wrapper():
    compiled = torch.compile(torch.nn.Linear(114, 114))
    assert owner_text(entry([114, 114])) == "compiled.weight"
    del compiled


@check
def an_averaged_model_has_its_own_names():
    average = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(115, 115))
    assert owner_text(entry([115, 115])) == "average.module.weight"
    del average


@check
def a_plain_attribute_of_a_module_is_found():
    model = torch.nn.Linear(2, 2)
    model.cache = [zeros(116, 1), zeros(116, 2)]
    assert look()[116, 2] == ("model.cache[1]", "other")


@check
def a_buffer_is_a_buffer():
    model = torch.nn.BatchNorm1d(117)
    owners = {owner_text(s): s["category"] for s in take_inventory(torch)["storages"] if s["shape"] == [117]}
    assert owners["model.running_mean"] == "buffer"
    del model


@check
def parameters_that_only_the_graph_holds_are_parameters():
    def loss_of_a_forgotten_model():
        return torch.nn.Linear(118, 118, bias=False, device=DEVICE)(zeros(1, 118)).sum()

    loss = loss_of_a_forgotten_model()
    assert entry([118, 118])["category"] == "parameter"
    del loss


class Sample:
    def __init__(self, *shape):
        self.fields = {"image": zeros(*shape), "label": 3}


class SlottedSample:
    __slots__ = ("image", "note")

    def __init__(self, *shape):
        self.image = zeros(*shape)  # `note` stays empty


def long_containers():
    """Containers of more elements than a look reads, each with a place in it and the name there."""
    number = 300
    yield [Sample(number, 1) for _ in range(number)], "[150].fields['image']", (number, 1)
    yield [SlottedSample(number, 2) for _ in range(number)], "[150].image", (number, 2)
    yield [(n, [zeros(number, 3)]) for n in range(number)], "[150][1][0]", (number, 3)
    yield {f"at {n}": {"image": zeros(number, 4)} for n in range(number)}, "['at 150']['image']", (number, 4)
    yield [Sample(number, 5), *(SlottedSample(number, 5) for _ in range(number))], "[150].image", (number, 5)


def records(memory):
    """How many tensors of each long container a look finds, whether it has the name, and whether it is complete."""
    for held, name, shape in long_containers():
        found = take_inventory(torch, memory=memory())
        owners = {owner_text(s).partition(" (")[0] for s in found["storages"] if s["shape"] == list(shape)}
        yield len(held), len(owners), f"held{name}" in owners, found["is_complete"]


@check
def a_look_that_reads_a_part_of_a_long_list_does_not_call_itself_complete():
    for elements, found, _, is_complete in records(Memory):
        assert 0 < found < elements
        assert not is_complete


@check
def a_look_that_reads_records_finds_all_of_a_long_list():
    for elements, found, has_name, is_complete in records(functools.partial(Memory, reads_records=True)):
        assert (found, has_name, is_complete) == (elements, True, True)


@check
def a_long_list_whose_records_lie_deeper_is_read_in_part():
    deep = [{"a": {"b": {"c": {"d": zeros(301, 1)}}}, "image": zeros(301, 2)} for _ in range(301)]
    found = take_inventory(torch, memory=Memory(reads_records=True))
    assert len([s for s in found["storages"] if s["shape"] == [301, 2]]) == len(deep)
    assert not found["is_complete"]


@check
def a_look_without_time_for_all_records_finds_some_and_is_not_complete():
    held = [{"image": zeros(304, 1)} for _ in range(6000)]
    meter = Meter(float("inf"), max_steps=3000)
    found = take_inventory(torch, meter=meter, memory=Memory(reads_records=True))
    assert 500 < len([s for s in found["storages"] if s["shape"] == [304, 1]]) < len(held)
    assert not found["is_complete"]


@check
def a_list_of_parameters_that_gets_longer_is_named_in_each_look():
    model = torch.nn.Module()
    model.first, model.prompts = torch.nn.Linear(305, 1), torch.nn.ParameterList()
    memory = Memory()
    for number in range(4):
        model.prompts.append(torch.nn.Parameter(zeros(306, 1 + number)))
        found = look(memory=memory)
        names = [found[306, 1 + earlier] for earlier in range(number + 1)]
        assert names == [(f"model.prompts.{earlier}", "parameter") for earlier in range(number + 1)]


@check
def of_two_names_of_one_storage_the_first_counts():
    weights = zeros(302, 1).requires_grad_()
    detached, wrapped = weights.detach(), torch.nn.Parameter(zeros(303, 1), requires_grad=False)
    alias = wrapped.data
    assert owner_text(entry((302, 1))).startswith("weights")
    assert owner_text(entry((303, 1))).startswith("wrapped")
    del detached, alias


class Deep:
    def __init__(self, held, depth):
        self.inner = Deep(held, depth - 1) if depth else held


@check
def walks_name_what_an_earlier_scan_found():
    deep = Deep(torch.nn.Linear(119, 119, bias=False), 8)
    for _ in range(3):
        gc.collect()  # makes the objects old, because a walk also reads young objects
    memory = Memory()
    assert (119, 119) not in look(memory=memory)
    assert look("scan", memory)[119, 119] == ("Linear.weight", "parameter")
    assert look(memory=memory)[119, 119] == ("Linear.weight", "parameter")
    del deep


@check
def later_looks_notice_what_was_replaced():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.Linear(160 + n, 3, bias=False, device=DEVICE) for n in range(2))
            self.register_buffer("seen", zeros(162, 1))

    model, memory = Two(), Memory()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)

    def step():
        model.first(zeros(1, 160)).sum().backward()
        model.second(zeros(1, 161)).sum().backward()
        optimizer.step()

    def names():
        found = take_inventory(torch, memory=memory)
        memory.complete(found, None)
        return {owner_text(s): s["category"] for s in found["storages"]}

    step()
    for _ in range(3):
        before = names()
    assert before["model.first.weight"] == "parameter"
    assert before["model.first.weight.grad"] == "gradient"
    assert before["optimizer.state[model.first.weight].momentum_buffer"] == "optimizer_state"
    model.third, model.first = model.first, torch.nn.Linear(163, 3, bias=False, device=DEVICE)
    model.seen = zeros(164, 1)
    model.zero_grad(set_to_none=True)
    optimizer.state[model.second.weight]["momentum_buffer"] = zeros(3, 161)
    for _ in range(2):
        after = names()
    assert "model.first.weight.grad" not in after
    assert "model.third.weight" in after
    assert "optimizer.state[model.third.weight].momentum_buffer" in after
    assert after["model.first.weight"] == "parameter"
    shapes = {owner_text(s): s["shape"] for s in take_inventory(torch, memory=memory)["storages"]}
    assert shapes["model.first.weight"] == [3, 163]
    assert shapes["model.seen"] == [164, 1]
    assert shapes["model.third.weight"] == [3, 160]


@check
def a_scan_finds_tensors_that_no_variable_leads_to():
    deep = Deep({"kept": zeros(120, 1)}, 8)
    assert look("scan")[120, 1] == ("unnamed Tensor", "other")
    del deep


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        ctx.kept = zeros(121, 2)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@check
def tensors_kept_by_a_custom_function_are_found():
    result = Doubled.apply(zeros(121, 1, requires_grad=True) * 1).sum()
    saved = [s["saved_by"] for s in take_inventory(torch)["storages"] if s["shape"] == [121, 1]]
    assert saved.count("DoubledBackward") == 1
    assert entry([121, 2])["category"] == "activation"
    del result


@check
def a_saved_tensor_names_the_operation_that_saved_it():
    def result_of_layers():
        hidden = torch.nn.Linear(122, 123, device=DEVICE)(zeros(5, 122))
        return torch.nn.functional.gelu(hidden).sum()

    result = result_of_layers()
    assert entry([5, 123])["saved_by"] == "GeluBackward0"
    assert owner_text(entry([5, 123])) == "self of GeluBackward0"
    del result


@check
def a_saved_tensor_in_a_variable_is_named_after_the_variable():
    hidden = zeros(124, 2, requires_grad=True) * 1
    result = hidden.exp().sum() + (hidden * hidden).sum()
    storages = [s for s in take_inventory(torch)["storages"] if s["shape"] == [124, 2]]
    named = {owner_text(s).partition(" (")[0]: s["saved_by"] for s in storages}
    assert named["hidden"] == "MulBackward0"
    assert named["result of ExpBackward0"] == "ExpBackward0"
    del result


@check
def sparse_tensors_are_listed_as_their_parts():
    coo = torch.eye(125, 125).to_sparse().to(DEVICE)
    csr = torch.eye(126, 126).to_sparse_csr().to(DEVICE)
    by_shape = look()
    assert by_shape[125,] == ("coo", "other")
    assert by_shape[2, 125] == ("coo", "other")
    assert by_shape[127,] == ("csr", "other")
    del coo, csr


@check
def tensors_without_memory_are_skipped():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(128, 1)
    meta = torch.zeros(128, 2, device="meta")
    lazy = torch.nn.LazyLinear(128)
    dense = torch.zeros(128, 3).to_mkldnn() if torch.backends.mkldnn.is_available() else None
    for how in ("walk", "scan"):
        assert not [s for s in take_inventory(torch, how)["storages"] if 128 in s["shape"][:1]]
    del fake, meta, lazy, dense


@check
def nested_tensors_are_read():
    parts = [torch.zeros(129, 1), torch.zeros(129, 2)]
    jagged = torch.nested.nested_tensor([part[:, 0] for part in parts], layout=torch.jagged)
    strided = torch.nested.nested_tensor(parts)
    names = [owner_text(s).partition(" (")[0] for s in take_inventory(torch)["storages"]]
    assert "jagged" in names
    assert "strided" in names
    del jagged, strided


@check
def a_distributed_tensor_is_listed_as_its_local_part():
    from torch import distributed
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = torch.nn.Module()
        whole = distribute_tensor(torch.zeros(130, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
        model.weight = torch.nn.Parameter(whole)
        del whole
        parts = {owner_text(s): s["size_bytes"] for s in take_inventory(torch)["storages"] if s["shape"] == [130, 4]}
        assert parts["model.weight"] == 130 * 4 * 4
    finally:
        distributed.destroy_process_group()


@check
def inside_vmap_and_grad_the_underlying_tensors_are_found():
    looks = []

    def function(x):
        looks.append(look())
        return (x * x).sum()

    torch.func.vmap(function)(zeros(131, 2))
    torch.func.grad(function)(zeros(132, 2))
    assert looks[0][131, 2] == ("x", "other")
    assert (132, 2) in looks[1]


@check
def inference_tensors_are_found():
    with torch.inference_mode():
        result = zeros(133, 1)
        assert look()[133, 1] == ("result", "other")
    del result


def views_of(shape, memory=None):
    """What is found to be shown of the storage of the tensor of this shape."""
    storages = take_inventory(torch, memory=memory)["storages"]
    (found,) = (s for s in storages if s["shape"] == list(shape) and owner_text(s) != "unnamed")
    return sorted(found["views"])


@check
def a_row_that_is_kept_says_how_much_of_its_storage_it_shows():
    memory, rows = Memory(), [zeros(64, 7919)[3].detach()]
    for _ in range(4):
        assert views_of([7919], memory) == [[3 * 7919 * 4, 7919 * 4]]
    del rows


@check
def rows_of_one_matrix_are_added_up_and_a_row_with_two_names_counts_once():
    memory, matrix = Memory(), zeros(64, 7907)
    rows = [matrix[1], matrix[2]]
    again = {"first": rows[0]}
    del matrix
    for _ in range(4):
        assert views_of([7907], memory) == [[7907 * 4, 7907 * 4], [2 * 7907 * 4, 7907 * 4]]
    del rows, again


@check
def rows_beside_their_whole_matrix_or_all_of_its_rows_are_no_small_views():
    memory, matrix = Memory(), zeros(64, 7901)
    first = matrix[0]
    every = list(zeros(64, 7883).unbind())
    for _ in range(4):
        found = {tuple(s["shape"]): s["views"] for s in take_inventory(torch, memory=memory)["storages"]}
        assert found.get((7901,)) in (None, [])
        assert found.get((64, 7901)) in (None, [])
        assert found[7883,] == []
    del first, every


@check
def a_row_is_a_small_view_as_soon_as_its_matrix_is_gone():
    memory, matrix = Memory(), zeros(64, 7879)
    rows = [matrix[0].detach()]
    take_inventory(torch, memory=memory)
    del matrix
    for _ in range(2):
        assert views_of([7879], memory) == [[0, 7879 * 4]]
    del rows


@check
def frozen_tensors_are_found_by_variable_and_a_scan_mentions_gc_freeze():
    kept, count_frozen = zeros(134, 1), gc.get_freeze_count
    gc.freeze()
    gc.get_freeze_count = None  # it visits all that is frozen, in one stop that nobody foresaw
    try:
        assert look("scan")[134, 1] == ("kept", "other")
        assert any("gc.freeze()" in problem for problem in take_inventory(torch, "scan")["problems"])
    finally:
        gc.get_freeze_count = count_frozen
        gc.unfreeze()
    assert not any("gc.freeze()" in problem for problem in take_inventory(torch, "scan")["problems"])
    del kept


@check
def workspaces_are_identified_by_their_size():
    kept = zeros(1)
    known = {k["owner"]: k["size_bytes"] for k in take_inventory(torch)["known_sizes"]}
    assert known == ({"cuBLAS workspace": 33554432, "cuBLASLt workspace": 1048576} if ON_CUDA else {})
    del kept


@check
def a_scan_marks_pinned_memory():
    if ON_CUDA:
        pinned = torch.zeros(1 << 16).pin_memory()
        assert entry([1 << 16], "scan")["is_pinned"]
        del pinned
    pageable = torch.zeros(1 << 17)
    assert not entry([1 << 17], "scan")["is_pinned"]
    del pageable


@check
def a_local_variable_inside_a_tree_gives_no_new_names():
    versions = []

    class Layer(torch.nn.Linear):
        def forward(self, inputs):
            look(memory=memory)
            versions.append(memory.trees.version)
            return super().forward(inputs)

    memory = Memory()
    model = torch.nn.Sequential(*(Layer(3, 3, device=DEVICE) for _ in range(3)))
    model(zeros(1, 3))
    assert len(set(versions)) == 1, versions


@check
def a_result_without_a_variable_is_found_among_young_objects():
    memory = Memory()
    for size in (180, 181):
        _, found = zeros(size, 4), look(memory=memory)
        assert (size, 4) in found


class Node:
    def __init__(self, size, before):
        self.hidden, self.before = zeros(size, 4), before


def chain(size):
    last = None
    for _ in range(24):
        last = Node(size, last)
    return last


@check
def two_chains_of_one_name_in_two_functions_are_known_by_their_places():
    memory = Memory()

    def inner():
        last = chain(186)
        for _ in range(3):
            storages = take_inventory(torch, memory=memory)["storages"]
        assert last.before is not None
        return storages

    def outer():
        last = chain(187)
        storages = inner()
        assert last.before is not None
        return storages

    names = {(s["shape"][0], owner_text(s)[-7:]) for s in outer() if s["shape"] in ([186, 4], [187, 4])}
    assert names == {(186, " inner)"), (187, " outer)")}, names


@check
def what_a_lost_exception_keeps_has_its_name_in_a_scan_that_leaves_something_out():
    def fail():
        hidden = zeros(184, 4)
        raise ValueError(hidden.shape)

    try:
        fail()
    except ValueError as error:
        error.itself, kept = error, [error]
    memory = Memory()
    for method in ("walk", "scan"):
        cut = Meter(60)
        cut.leave_out()
        found = take_inventory(torch, method, cut, memory)
        memory.complete(found, None)
        (storage,) = [storage for storage in found["storages"] if storage["shape"] == [184, 4]]
        assert (storage["owner"][0], storage["keeper"]) == ("hidden", "exception")
        kept.clear()
    gc.collect()


@check
def a_map_with_a_stop_of_its_own_completes_the_inventory_before_it():
    reader, first, last = TorchReader(), empty_look([]), empty_look([])
    held = torch.ones(183, 4, device=DEVICE)
    reader.read(torch, "walk", first, Meter(60), may_walk=False, has_map=False)
    reader.keep_part(first)
    reader.read(torch, "", last, Meter(60), may_walk=False)
    last["inventory"] = first["inventory"]
    reader.describe(last)
    assert last["problems"] == [], last["problems"]
    (_, *pieces), _ = look_frame(last)
    inventory = json.loads(b"".join(pieces))["inventory"]
    assert "by_address" not in inventory
    place = inventory["storages"]["columns"].index("shape")
    assert [183, 4] in [row[place] for row in inventory["storages"]["rows"]]
    del held


run()
