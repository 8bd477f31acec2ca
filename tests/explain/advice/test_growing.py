"""A leak is blamed on the variable that keeps it: by the lengths of containers, of which a look may read a part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gputui.explain.advice.leaks.kinds import growths
from gputui.model.attached.analysis import Finding, TensorGroup
from gputui.model.attached.owners import Keeper, OwnerName
from gputui.model.attached.tensors import Category, Container
from gputui.model.weight import Weight
from gputui.units import MIB
from tests.explain.moments import Tensor, moment, row, story, text_of

X = Category.OTHER
LENGTHS = (10, 12, 14, 16, 18, 20)
LOOKS = len(LENGTHS)
ELEMENT_MIB = 8.0


def container(name: str, elements: int, kind: str = "list", ident: int = 1, **fields) -> Container:
    filled = {"where": "", "held_by": "", "read": elements} | fields
    return Container(ident=ident, name=name, type=kind, elements=elements, **filled)


def plain(names: Sequence[str], place: str = "", keeper: Keeper = Keeper.NONE, shown_mib: float = 0) -> list[Tensor]:
    return [Tensor(ELEMENT_MIB, f"{name}{place}", X, keeper=keeper, shown_mib=shown_mib) for name in names]


def find(
    looks: Sequence[tuple[list[Tensor], tuple[Container, ...]]], every_s: float = 5.0, **keywords
) -> Finding | None:
    moments = [
        moment(row(*tensors), time=100.0 + every_s * number, containers=containers, **keywords)
        for number, (tensors, containers) in enumerate(looks)
    ]
    return story(*moments).findings().get("leak")


def growing(
    name: str,
    kind: str = "list",
    tensor: str = "{}",
    lengths: Sequence[int] = LENGTHS,
    keeper: Keeper = Keeper.NONE,
    shown_mib: float = 0,
    **fields,
) -> Finding | None:
    """The finding about one container whose elements each have a tensor; `tensor` makes its name of the element's."""
    where = fields.get("where", "")
    looks = []
    for length in lengths:
        names = [tensor.format(f"{name}[{number}]") for number in range(length)]
        tensors = plain(names, f" ({where})" if where else "", keeper, shown_mib)
        looks.append((tensors, (container(name, length, kind, **fields),)))
    return find(looks)


STATEMENTS = {
    "outputs of a validation under no_grad": (
        {"name": "outputs", "where": "train.py:31 in validate"},
        ["outputs (train.py:31 in validate) grows: 160 MiB in 20 elements, 3.2 MiB a second.",
         "Append output.cpu() instead of output, or empty the list once it has been used."],
    ),
    "a cache by step": (
        {"name": "cache", "kind": "dict", "where": "cache.py"},
        ["cache (cache.py) grows: 160 MiB in 20 elements", "The dict grew from 10 to 20 elements.",
         "Delete the entries of cache that are no longer needed"],
    ),
    "results of a function with lru_cache": (
        {"name": "mask", "kind": "lru_cache", "where": "model.py", "grown_at": "model.py:7 in mask"},
        ["mask (model.py:7 in mask) grows: 160 MiB in 20 elements", "The lru_cache grew from 10 to 20 elements.",
         "Give the lru_cache of mask a maxsize, or call mask.cache_clear()"],
    ),
    "an attribute of a callback": (
        {"name": "trainer.callbacks[0].outputs", "where": "train.py:9 in main", "held_by": "Metrics in callbacks.py"},
        ["trainer.callbacks[0].outputs (Metrics in callbacks.py) grows"],
    ),
    "a variable of a closure": (
        {"name": "kept", "held_by": "add in train.py:7"},
        ["kept (add in train.py:7) grows"],
    ),
    "a replay buffer without a limit": (
        {"name": "buffer", "kind": "deque", "tensor": "{}[0]"},
        ["buffer grows: 160 MiB in 20 elements", "Give buffer a maxlen"],
    ),
    "a queue without a limit": (
        {"name": "batches.queue", "kind": "deque", "where": "train.py:9 in main", "grown_at": "train.py:7 in producer"},
        ["batches.queue (train.py:7 in producer) grows: 160 MiB in 20 elements", "Give batches a maxsize",
         "queue.Queue(maxsize=8)"],
    ),
    "a deque in a variable called queue": ({"name": "queue", "kind": "deque"}, ["Give queue a maxlen"]),
    "a queue of asyncio's": (
        {"name": "batches._queue", "kind": "deque", "where": "train.py:9 in main"},
        ["Give batches a maxsize", "asyncio.Queue(maxsize=8)"],
    ),
    "a deque that an object of the program calls its queue": (
        {"name": "server.queue", "kind": "deque", "held_by": "Server in serve.py"},
        ["Give server.queue a maxlen"],
    ),
    "a replay buffer with a limit": (
        {"name": "buffer", "kind": "deque", "tensor": "{}[1]['obs']", "limit": 100},
        ["from 10 to 20 elements of at most 100", "When it is full, it takes 800 MiB"],
    ),
    "rows of matrices": (
        {"name": "rows", "where": "train.py:31 in validate", "shown_mib": 0.5},
        ["rows (train.py:31 in validate) grows: 160 MiB in 20 elements",
         "Append row.clone() instead of row: these are views of 10.0 MiB, and each keeps its whole storage, 160 MiB"],
    ),
    "kept exceptions": (
        {"name": "errors", "tensor": "hidden (exception {}, train.py:5 in step)", "keeper": Keeper.EXCEPTION},
        ["errors grows: 160 MiB in 20 elements", "Keep str(error) instead of the exceptions in errors"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "sentences"), STATEMENTS.values(), ids=STATEMENTS)
def test_the_finding_names_the_variable_and_the_remedy(case, sentences):
    finding = growing(**case)
    assert finding is not None
    assert [sentence for sentence in sentences if sentence not in text_of(finding)] == [], text_of(finding)
    assert finding.owners == (case["name"],)
    assert len(finding.addresses) == LENGTHS[-1]


MODELS = {Category.PARAMETER: "models[{}].weight", Category.OPTIMIZER_STATE: "models[{}].state[weight].exp_avg"}


@pytest.mark.parametrize(("category", "name"), MODELS.items(), ids=MODELS)
def test_models_and_optimizers_that_a_list_collects_are_a_leak(category, name):
    looks = []
    for length in LENGTHS:
        tensors = [Tensor(ELEMENT_MIB, name.format(number), category) for number in range(length)]
        looks.append((tensors, (container("models", length),)))
    assert "models grows: 160 MiB in 20 elements" in text_of(find(looks))


def test_a_buffer_that_is_full_is_no_leak_if_it_grows():
    full = container("buffer", 40, "deque", limit=40)
    found = story(moment(row(*plain([f"buffer[{number}]" for number in range(40)])), containers=(full,))).findings()
    assert found["kept_variable"].title == "buffer keeps 320 MiB in 40 elements, as many as it may have."
    assert found["kept_variable"].remedy == "Choose a smaller maxlen, or keep its tensors in host memory (.cpu())."


def test_elements_that_share_a_name_are_not_taken_for_one():
    looks = [(plain(["table[Config]"] * length), (container("table", length, "dict"),)) for length in LENGTHS]
    partial = find(looks, is_complete=False)
    assert "table grows: about 160 MiB in 20 elements" in text_of(partial)


def test_a_buffer_with_a_limit_is_advice_and_one_without_is_a_problem():
    weights = [growing("buffer", "deque", limit=limit).weight for limit in (0, 100)]
    assert weights == [Weight.PROBLEM, Weight.ADVICE]


SILENT = {
    "it has its final length": {"lengths": (20,) * LOOKS},
    "it was filled once": {"lengths": (10, 20, *(20,) * LOOKS)},
    "it was filled for a while and then stays": {"lengths": (10, 14, 18, 22, 26, 26, 26)},
    "its length goes up and down": {"lengths": (10, 18, 12, 20, 11, 19, 14)},
    "it is emptied again and again": {"lengths": (10, 14, 18, 10, 14, 18)},
    "too few looks": {"lengths": LENGTHS[:-1]},
}


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_a_container_that_does_not_keep_growing_is_not_blamed(case):
    finding = growing("outputs", **case)
    assert finding is None or finding.owners != ("outputs",)


def test_a_list_emptied_at_the_end_of_an_epoch_is_named_by_its_growth_since_then():
    finding = growing("outputs", lengths=(40, 50, *LENGTHS))
    assert "The list grew from 10 to 20 elements." in finding.evidence


def test_parts_of_a_container_are_extrapolated_to_its_length():
    """Each look has read 8 elements of up to 20,000, and came to the container in two of three looks only."""
    lengths = range(1000, 20_001, 1000)
    looks = [
        (
            [*plain([f"outputs[{number}]" for number in range(8)]), Tensor(ELEMENT_MIB * (length - 8), None)],
            (container("outputs", length, read=8),) if length % 3 else (),
        )
        for length in lengths
    ]
    finding = find(looks, is_complete=False)
    assert finding.title.startswith("outputs grows: about 156 GiB in 20,000 elements")
    assert finding.owners == ("outputs",)


def test_what_is_extrapolated_takes_no_memory_that_others_own():
    """The elements that a look has read may be the largest ones."""
    looks = []
    for length in range(1000, 7000, 1000):
        tensors = [
            *plain([f"outputs[{number}]" for number in range(8)]),
            Tensor(64.0, "model.weight", Category.PARAMETER),
        ]
        looks.append(([*tensors, Tensor(32.0, None)], (container("outputs", length, read=8),)))
    assert find(looks, is_complete=False).title.startswith("outputs grows: about 96.0 MiB in 6,000 elements")


def test_a_container_with_several_names_is_one():
    """A look names it after the nearest variable, which depends on the function that is running."""
    names = ("outputs", "trainer.callbacks[0].outputs")
    looks = []
    for turn, length in enumerate(LENGTHS):
        name = names[turn % 2]
        tensors = [f"{names[number % 2]}[{number}]" for number in range(length)]
        looks.append((plain(tensors), (container(name, length),)))
    finding = find(looks)
    assert finding.title.startswith("outputs grows: 160 MiB in 20 elements")


def test_a_list_that_is_replaced_by_a_longer_one_is_followed_by_its_name():
    looks = [
        (plain([f"outputs[{number}]" for number in range(length)]), (container("outputs", length, ident=length),))
        for length in LENGTHS
    ]
    assert find(looks).owners == ("outputs",)


def test_the_first_exceptions_that_a_look_reads_are_extrapolated_to_all():
    looks = []
    for length in range(1000, 7000, 1000):
        names = [f"hidden (exception errors[{number}], train.py:5 in step)" for number in range(8)]
        tensors = [*plain(names, keeper=Keeper.EXCEPTION), Tensor(ELEMENT_MIB * (length - 8), None)]
        looks.append((tensors, (container("errors", length, read=8),)))
    assert find(looks).title.startswith("errors grows: about 46.9 GiB in 6,000 elements")


def test_locals_that_the_last_exception_keeps_are_not_blamed_on_a_variable_of_the_same_name():
    names = [f"outputs[{number}] (last exception, train.py:5 in step)" for number in range(8)]
    looks = [
        (plain(names, keeper=Keeper.LAST_EXCEPTION), (container("outputs", length, read=0),)) for length in LENGTHS
    ]
    assert find(looks) is None


def graphs(length: int, *, shape: tuple[int, ...] = (), saved_mib: float = ELEMENT_MIB) -> list[Tensor]:
    own_mib = 4 / (1 << 20) * (shape[0] if shape else 1)
    tensors = []
    for number in range(length):
        name = f"outputs[{number}] (train.py:31 in main)"
        tensors.append(Tensor(own_mib, name))
        tensors.append(Tensor(saved_mib, "mat1 of AddmmBackward0", saved_by="AddmmBackward0", kept_by=name))
    return tensors


def test_outputs_that_keep_their_graphs_are_to_be_detached():
    looks = [
        (graphs(length, shape=(1000,)), (container("outputs", length, graphs=length, where="train.py:31 in main"),))
        for length in LENGTHS
    ]
    finding = find(looks)
    assert finding.title == "outputs (train.py:31 in main) grows: 160 MiB in 20 graphs, 3.2 MiB a second."
    assert finding.remedy == "Append output.detach() instead of output: that would free 160 MiB."


def test_outputs_that_are_larger_than_what_their_graphs_keep_are_to_leave_the_device_as_well():
    where = "train.py:31 in main"
    looks = [
        (
            graphs(length, shape=(1 << 21,), saved_mib=1),
            (container("outputs", length, graphs=length, where=where),),
        )
        for length in LENGTHS
    ]
    assert find(looks).remedy == (
        "Append output.detach().cpu() instead of output, or empty the list once it has been used: the tensors"
        " themselves take 160 MiB, their graphs keep 20.0 MiB."
    )


def test_single_numbers_are_to_be_kept_as_numbers_also_where_each_keeps_a_large_storage():
    looks = []
    for length in LENGTHS:
        names = [f"losses[{number}] (train.py:31 in main)" for number in range(length)]
        own = [Tensor(ELEMENT_MIB, name, is_scalar=True, shown_mib=4 / (1 << 20)) for name in names]
        looks.append((own, (container("losses", length, where="train.py:31 in main"),)))
    assert find(looks).remedy == "Append loss.item() instead of loss: that would free 160 MiB."


def test_a_remedy_is_for_the_tensors_of_objects_and_not_for_the_objects():
    looks = []
    for length in LENGTHS:
        names = [f"callbacks[{number}].args[0] (train.py:31 in main)" for number in range(length)]
        looks.append((plain(names), (container("callbacks", length, where="train.py:31 in main"),)))
    assert find(looks).remedy.startswith("Append tensor.cpu() instead of tensor")


def test_a_linked_list_that_gets_longer_is_told_as_one_variable():
    looks = []
    for length in LENGTHS:
        near = plain(["last.hidden", "last.before.hidden"], " (train.py:31 in main)")
        far = plain(["last[...].hidden"] * length, " (train.py:31 in main)")
        looks.append(([*near, *far], ()))
    finding = find(looks)
    assert finding.title == "last[...] (train.py:31 in main) grows: 160 MiB in 20 tensors, 3.2 MiB a second."
    assert finding.evidence[0] == (
        "last[...] are the objects that last leads to, each to others of its class, as in a tree or a linked list."
    )
    assert finding.remedy.startswith("Cut off the objects that are no longer needed")


def test_views_with_graphs_are_to_be_detached_and_copied():
    """`detach()` alone would leave the whole storage of each view."""
    where = "train.py:31 in main"
    looks = [
        (
            [
                *graphs(length, shape=(1000,)),
                *plain([f"outputs[{n}]" for n in range(length)], f" ({where})", shown_mib=1),
            ],
            (container("outputs", length, graphs=length, where=where),),
        )
        for length in LENGTHS
    ]
    assert find(looks).remedy.startswith("Append output.detach().clone() instead of output: that would free 160 MiB.")


def test_graphs_after_their_backward_pass_fill_the_host_memory():
    """Their saved tensors are free, and their operations are not: 800 bytes each."""
    counts = range(10_000, 16_000, 1000)
    looks = []
    for count in counts:
        own = [Tensor(4 / (1 << 20), f"losses[{number}]") for number in range(8)]
        looks.append((own, (container("losses", count, read=8, graphs=8, walked=4, nodes=1200),)))
    finding = find(looks, is_complete=False)
    assert finding.title == "losses grows: about 3.4 GiB of host memory in 15,000 graphs, 45.8 MiB a second."
    assert finding.weight is Weight.ADVICE
    assert finding.remedy == "Append loss.item() instead of loss: that would free about 3.4 GiB of host memory."


def variable(sizes_mib: Sequence[float], owner: str = "history", **fields) -> Finding | None:
    return find([([Tensor(size, owner, X, **fields)], ()) for size in sizes_mib])


RISING = tuple(range(20, 40, 2))


def test_one_tensor_that_gets_longer_is_named():
    finding = variable(RISING, "history (train.py:12 in main)")
    assert finding.title == "history (train.py:12 in main) grows: 38.0 MiB in one tensor, 24.0 MiB a minute."


def test_the_tensors_of_an_iterator_are_counted():
    """Those that `itertools.tee` keeps for the slower of two iterators have its name."""
    looks = [([Tensor(2, "slower (train.py:12 in main)", X)] * (size // 2), ()) for size in RISING]
    finding = find(looks)
    assert finding.title == "slower (train.py:12 in main) grows: 38.0 MiB in 19 tensors, 24.0 MiB a minute."
    assert finding.remedy.endswith("or let it go once its tensors have been used.")


@pytest.mark.parametrize(
    ("others", "remedy"),
    [
        (
            [],
            "Compute total_loss under torch.no_grad(), since no gradient and no optimizer state is there: that ",
        ),
        (
            [Tensor(8, "optimizer.state[w].exp_avg", Category.OPTIMIZER_STATE)],
            "Add the .item() of each tensor to total_loss, without its graph: that would free 38.0 MiB. Where ",
        ),
    ],
    ids=["nothing is trained", "an optimizer has states"],
)
def test_a_sum_of_losses_whose_graph_keeps_every_step_is_named(others, remedy):
    kept = {"saved_by": "AddmmBackward0", "kept_by": "total_loss (train.py:12 in main)"}
    finding = find([([Tensor(size, "mat1 of AddmmBackward0", X, **kept), *others], ()) for size in RISING])
    assert finding.title.startswith("total_loss (train.py:12 in main) grows: 38.0 MiB in the graph of one tensor")
    assert finding.remedy.startswith(remedy)


def test_a_hidden_state_whose_graph_keeps_every_step_is_to_be_detached():
    """As of a recurrent network: it is no sum of numbers."""
    kept = {"saved_by": "AddmmBackward0", "kept_by": "hidden (train.py:12 in main)"}
    own = Tensor(8, "hidden (train.py:12 in main)", X)
    finding = find([([own, Tensor(size, "mat1 of AddmmBackward0", X, **kept)], ()) for size in RISING])
    assert finding.remedy.startswith("Detach it once in each step (hidden = hidden.detach()): that would free ")


@pytest.mark.parametrize("is_complete", [True, False], ids=["complete", "incomplete"])
def test_only_an_incomplete_look_may_find_less_of_a_variable_that_grows(is_complete):
    sizes = (*RISING[:5], 22, *RISING[5:])
    looks = [([Tensor(size, "history", X)], ()) for size in sizes]
    finding = find(looks, is_complete=is_complete)
    assert (finding is not None and finding.title.startswith("history grows")) is not is_complete


@pytest.mark.parametrize("sizes", [RISING[:6], (*RISING[:5], 2, *RISING[5:])], ids=["too few looks", "fell once"])
def test_a_variable_that_goes_up_and_down_is_not_blamed(sizes):
    assert variable(sizes) is None


def seldom_looked_at(
    looks: Sequence[tuple[list[Tensor], tuple[Container, ...]]], every_s: int, grows_mib_per_s: float
) -> Finding | None:
    """A program whose counters are read each second, and grow, with a look now and then."""
    moments = []
    for second in range(every_s * len(looks)):
        tensors, containers = looks[second // every_s]
        allocated_bytes = int((200 + grows_mib_per_s * second) * MIB)
        looked_at = 100.0 + second - second % every_s
        moments.append(
            moment(
                row(*tensors),
                time=100.0 + second,
                containers=containers,
                looked_at=looked_at,
                allocated_bytes=allocated_bytes,
            )
        )
    return story(*moments).findings().get("leak")


@pytest.mark.parametrize(
    ("grows_mib_per_s", "title"),
    [(4, "kept grows: 128 MiB in 16 elements"), (20, "Allocated memory grows: ")],
    ids=["as the list does", "faster"],
)
def test_a_list_that_got_longer_in_few_looks_is_named_where_it_keeps_most_of_what_the_counters_tell(
    grows_mib_per_s, title
):
    looks = [
        (plain([f"kept[{number}]" for number in range(length)]), (container("kept", length),)) for length in (4, 10, 16)
    ]
    finding = seldom_looked_at(looks, 12, grows_mib_per_s)
    assert finding is not None
    assert finding.title.startswith(title)


def test_a_graph_that_is_there_since_training_began_is_not_what_grows():
    """Beside a leak that has no name yet; it is the same in each look since then."""
    saved = {"saved_by": "AddmmBackward0", "kept_by": "loss (train.py:12 in step)"}
    looks = [([Tensor(size, "mat1 of AddmmBackward0", X, **saved)], ()) for size in (1, 1, 65, 64, 66, 65, 66)]
    finding = seldom_looked_at(looks, 5, 20)
    assert finding is not None
    assert finding.title.startswith("Allocated memory grows: ")


@pytest.mark.parametrize("growing", ["a.py:1", "c.py:3"])
def test_blocks_without_an_owner_grow_by_the_line_that_allocates_them(growing):
    def look(number: int) -> list[TensorGroup]:
        counts = {"a.py:1": 40, "b.py:2": 30, "c.py:3": 1} | {growing: 1 + 4 * number}
        return [
            TensorGroup(Category.UNATTRIBUTED, "", (), "", count, count * 100 * MIB, (OwnerName(line),))
            for line, count in counts.items()
        ]

    (found,) = growths([look(number) for number in range(LOOKS)])
    assert (found.group.names, found.first, found.last, found.bytes) == ((growing,), 1, 21, 2000 * MIB)


def test_growing_parameters_are_named_where_only_the_counters_show_a_leak():
    looks = [
        ([Tensor(ELEMENT_MIB, f"optimizer.param_groups[{n}].params[0]", Category.PARAMETER) for n in range(length)], ())
        for length in range(10, 44)
    ]
    finding = find(looks)
    assert finding is not None
    assert finding.evidence == (
        "The parameters went from 88.0 MiB to 344 MiB, such as optimizer.param_groups[42].params[0].",
    )
    assert finding.remedy.startswith("Make models and optimizers once")


def test_lists_of_one_dictionary_that_all_get_longer_are_told_as_that_dictionary() -> None:
    place, looks = "hooks.py:11 in hook", []
    for length in LENGTHS:
        lists = [f"probe.features['{layer}.0']" for layer in range(3)]
        tensors = plain([f"{name}[{number}]" for name in lists for number in range(length)], f" ({place})")
        inside = [container(name, length, ident=number, where=place) for number, name in enumerate(lists, 2)]
        looks.append((tensors, (container("probe.features", 3, "dict", where=place), *inside)))
    finding = find(looks)
    assert finding is not None
    assert finding.title.startswith(
        f"probe.features ({place}) grows: 480 MiB in 60 elements of 3 lists, 9.6 MiB a second"
    )
    assert "Its 3 lists grew from 30 to 60 elements." in finding.evidence
    assert finding.remedy.startswith("Append feature.cpu() instead of feature")
    assert finding.owners == ("probe.features",)
    assert len(finding.addresses) == 3 * LENGTHS[-1]


def test_lists_of_one_dictionary_of_which_none_is_large_are_told_as_that_dictionary() -> None:
    looks = []
    for length in LENGTHS:
        lists = [f"features['{layer}']" for layer in range(5)]
        tensors = [Tensor(0.5, f"{name}[{number}]", X) for name in lists for number in range(length)]
        inside = [container(name, length, ident=number) for number, name in enumerate(lists, 2)]
        looks.append((tensors, (*inside, container("features", len(lists), "dict"))))
    assert find(looks).title == "features grows: 50.0 MiB in 100 elements of 5 lists, 1.0 MiB a second."


def by_session(sizes: Sequence[int], name: str = "server.sessions") -> Finding | None:
    """The finding about a dictionary of two sessions, each of which keeps so many tensors."""
    place = "serve.py:9 in serve"
    looks = []
    for size in sizes:
        names = [f"{name}['{user}'].past[{number}]" for user in ("ana", "bo") for number in range(size)]
        looks.append((plain(names, f" ({place})"), (container(name, 2, "dict", where=place),)))
    return find(looks)


def test_a_container_whose_elements_keep_more_and_more_is_blamed() -> None:
    finding = by_session(range(4, 20))
    assert finding is not None
    assert finding.owners[:1] == ("server.sessions",)
    assert "server.sessions (serve.py:9 in serve) grows: 304 MiB in 2 elements" in text_of(finding)


def test_a_longer_name_that_begins_alike_hides_no_container() -> None:
    looks = []
    for number in range(4, 16):
        names = [f"sessions['ana'].past[{past}]" for past in range(number)]
        log = [f"sessions_log[{entry}]" for entry in range(number)]
        lists = (container("sessions", 1, "dict"), container("sessions_log", number, ident=2))
        looks.append((plain([*names, *log]), lists))
    assert set(find(looks).owners) == {"sessions", "sessions_log"}


def test_a_container_that_a_false_probe_calls_empty_raises_nothing() -> None:
    empty = container("sessions", 0, "deque", limit=8)
    looks = [(plain([f"sessions[0].past[{past}]" for past in range(number)]), (empty,)) for number in range(4, 20)]
    assert find(looks).owners == ("sessions",)
    assert story(moment(row(*looks[-1][0]), containers=(empty,))).findings() is not None


def test_a_container_whose_elements_keep_as_much_as_before_is_not_blamed() -> None:
    assert by_session([9] * 16) is None
