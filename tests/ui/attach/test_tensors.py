"""The Tensors screen by keyboard: opening, sorting, filtering, and jumping to a block and back."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gputui.explain.tensors import request as tensor_request
from gputui.explain.tensors.view import TensorView
from gputui.model.attached.moment import DeviceLayout, DeviceMoment, HostMoment, TargetMoment
from gputui.model.attached.target import Cost, Greeting
from gputui.model.attached.tensors import Category
from gputui.model.reading import Problem, ProblemKind
from gputui.ui.attach import tree_thread
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.attach.tensor_list import TensorList
from gputui.units import MIB
from tests.explain.layouts import HOST_STORAGES, laid_out, with_lines
from tests.explain.maps import BASE
from tests.explain.named import named
from tests.hanging import HANGS_S
from tests.scale import sized
from tests.ui.attach.sitting import Sitting, sitting

P, S, A, X = Category.PARAMETER, Category.OPTIMIZER_STATE, Category.ACTIVATION, Category.OTHER

MODEL = laid_out(
    ("m.layers.0.w", P, 4), ("m.layers.1.w", P, 4), ("m.head", P, 1), ("opt.state[m.head].exp_avg", S, 1),
    ("h (t.py:3 in f)", A, 16),
)  # fmt: skip


def moment(layout: DeviceLayout | None = MODEL, at: float = 100.0) -> TargetMoment:
    devices = (DeviceMoment(0, "", MODEL.statistics, layout=layout),)
    greeting = Greeting(77, "python t.py", "3.11", "2.11", None, None, True, ())
    return TargetMoment(at, greeting, devices, HostMoment(storages=HOST_STORAGES), look_time=at, look_cost=Cost(1, 1))


class MapStandIn(AttachScreen):
    """Records the address of the last jump."""

    NAME = "map"
    jumped_to: int | None = None

    def compose_body(self):
        return ()

    def draw(self) -> None: ...

    def jump(self, address: int) -> None:
        MapStandIn.jumped_to = address


class Shown(Sitting):
    """The application on its Tensors screen, with the queries that tests need."""

    @property
    def list(self) -> TensorList:
        return self.app.screen.query_one(TensorList)

    @property
    def view(self) -> TensorView:
        return self.app.attached.targets.current.tensors

    @property
    def titles(self) -> list[str]:
        return [row.node.title for row in self.list.entries]

    @property
    def title(self) -> str:
        return self.list.current.node.title


@asynccontextmanager
async def open_tensors(seen: TargetMoment | None = None, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Shown]:
    async with sitting(seen or moment(), size=size, kind=Shown) as shown:
        await shown.press("4")
        yield shown


async def test_the_total_and_the_categories_are_shown_at_every_size():
    async with open_tensors() as shown:
        for size in ((80, 24), (120, 40), (200, 50)):
            await shown.resize(*size)
            for words in ("26.0 MiB allocated in 5", "activations", "parameters", "optimizer state", "host memory"):
                assert words in shown.text, size


CURSOR = {
    "the cursor starts on the largest": ([], "activations"),
    "down": (["down", "down"], "parameters"),
    "right enters an open node": (["right"], "m"),
    "right opens a node, then enters it": (["right", "right", "right", "right"], "0.w"),
    "left goes to the parent": (["left"], "layers"),
    "more lefts close nodes and go up to the root": (["left", "left", "left", "left"], "parameters"),
    "vi keys, Enter opens": (["l", "enter", "j", "h"], "m"),
}


async def test_keys_move_through_the_tree():
    async with open_tensors() as shown:
        for what, (keys, title) in CURSOR.items():
            await shown.press(*keys)
            assert shown.title == title, what


async def test_left_closes_a_node_and_star_opens_or_closes_all():
    async with open_tensors() as shown:
        await shown.press("left")
        assert shown.titles[:2] == ["activations", "parameters"]
        await shown.press("asterisk")
        assert {"h", "layers", "0.w", "1.w", "head"} <= set(shown.titles)
        await shown.press("asterisk")
        assert "layers" not in shown.titles


async def test_g_groups_tensors_of_the_same_shape_and_type():
    async with open_tensors() as shown:
        await shown.press("g")
        assert "2 x (1048576,) float32 Tensor" in shown.text
        await shown.press("g")
        assert "activations" in shown.titles


async def test_with_memory_history_g_also_groups_by_line_and_enter_says_the_line_and_the_keeper():
    kept = laid_out(("loss (t.py:9 in f)", X, 1), ("mat1 of AddmmBackward0", A, 8))
    (saved,) = [storage for storage in kept.storages if storage.category is A]
    owner = replace(kept.owners[saved.address], saved_by="AddmmBackward0", kept_by=named("loss (t.py:9 in f)"))
    owned = replace(kept, owners=kept.owners | {saved.address: owner})
    async with open_tensors(moment(with_lines(owned, 9, 31))) as shown:
        await shown.press("g", "g")
        assert "by line" in shown.text
        assert "1 x ana/t.py:31 in f" in shown.text
        await shown.press("home", "right", "right", "enter")
        notice = next(iter(shown.app._notifications)).message
        assert notice.startswith("loss (t.py:9 in f) keeps the graph that this tensor is saved in.")
        assert notice.endswith("ana/t.py:31 in f allocated it.")


async def test_o_cycles_through_the_orders_and_r_reverses():
    async with open_tensors() as shown:
        first_titles = []
        for key in ("o", "o", "r", "o"):
            await shown.press(key)
            first_titles.append(shown.titles[0])
        assert first_titles == ["parameters", "parameters", "activations", "optimizer state"]
        assert "sorted by bytes reversed" in shown.text


async def test_typing_narrows_the_list_and_escape_restores_it():
    async with open_tensors() as shown:
        before = shown.titles
        await shown.press("slash", *"name~head")
        assert shown.titles == ["parameters", "m.head", "optimizer state", "opt.state.m.head.exp_avg"]
        await shown.press("enter")
        assert shown.list.has_focus
        assert "2.0 MiB in 2 match name~head" in shown.text
        await shown.press("escape")
        assert shown.titles == before


async def test_an_invalid_filter_shows_its_error_and_is_not_applied():
    async with open_tensors() as shown:
        await shown.press("slash", *"m.head")
        before = shown.titles
        await shown.press(*"==3")
        assert "has no field 'm.head'" in shown.text
        await shown.press("enter")
        assert shown.titles == before
        assert any("has no field 'm.head'" in notice for notice in shown.notices)


async def test_b_jumps_to_a_tensors_block_and_a_jump_back_finds_the_tensor(monkeypatch):
    monkeypatch.setattr("gputui.ui.screens.attach.map.MapScreen", MapStandIn)
    async with open_tensors() as shown:
        await shown.press("slash", *"layers.1", "enter", "down", "down", "b")
        await shown.until(lambda: MapStandIn.jumped_to is not None)
        assert MapStandIn.jumped_to == BASE + 4 * MIB
        shown.app.jump_to("tensors", BASE + 9 * MIB - 1)
        await shown.until(lambda: shown.app.screen.query(TensorList) and shown.list.current is not None)
        await shown.until(lambda: shown.title == "head" and "P m.head  (parameter)" in shown.text)


async def test_rows_without_a_block_show_a_message():
    async with open_tensors() as shown:
        await shown.press("b")
        assert "Put the cursor on a tensor: only tensors have a block." in shown.notices
        await shown.press("slash", *"batch", "enter", "end", "enter")
        assert "This tensor is in host memory, which has no map." in shown.notices


async def test_a_new_look_keeps_the_cursor_on_its_row():
    async with open_tensors() as shown:
        await shown.press("down", "down", "down")
        await shown.deal(moment(laid_out(("z", S, 40), ("m.layers.0.w", P, 4), ("m.head", P, 1)), at=101.0))
        assert shown.titles[:2] == ["optimizer state", "z"]
        assert shown.title == "m"


async def test_a_look_without_a_map_says_why():
    seen = replace(moment(layout=None), problems=(Problem("The map took too long.", ProblemKind.LOOK_ON_REQUEST),))
    async with open_tensors(seen) as shown:
        assert "The map took too long. Press u to look now." in shown.text
        assert "only the counters were kept" not in shown.text


async def test_before_the_first_look_the_screen_waits_and_an_earlier_moment_has_only_counters():
    async with open_tensors(replace(moment(layout=None), look_time=0.0)) as shown:
        assert "Waiting for the first look at the allocator's blocks ..." in shown.text
        await shown.deal(moment(at=101.0))
        await shown.press("1", "left", "4")
        assert "Of this moment only the counters were kept" in shown.text


MANY = sized(2_000, 10_000)


@pytest.fixture(scope="module")
def many() -> DeviceLayout:
    """`MANY` tensors, ten per module."""
    return laid_out(*((f"m.layers.{number // 10}.w{number % 10}", P, 1 / 64) for number in range(MANY)))


@pytest.mark.long
async def test_only_visible_rows_of_many_tensors_are_drawn(monkeypatch, many):
    drawn = []
    original = TensorList.draw_entry
    monkeypatch.setattr(TensorList, "draw_entry", lambda *a: drawn.append(a) or original(*a))
    async with open_tensors(moment(many)) as shown:
        await shown.press("asterisk")
        assert len(shown.list.entries) > MANY + MANY // 10
        drawn.clear()
        await shown.press("pagedown", "down", "end")
        assert 0 < len(drawn) <= 3 * shown.list.size.height
        drawn.clear()
        await shown.deal(moment(many, at=101.0))
        assert len(drawn) <= shown.list.size.height


@pytest.mark.long
async def test_trees_are_built_only_in_their_own_thread(monkeypatch, many):
    threads = []
    for name in ("live_blocks", "host_blocks", "sorted_by", "branch_keys", "rows_of"):
        monkeypatch.setattr(tensor_request, name, recording_thread(getattr(tensor_request, name), threads))
    async with open_tensors(moment(many)) as shown:
        await shown.press("asterisk")
        await shown.press("o")
        await shown.press("g")
        await shown.press("slash", *"w7", "enter")
        await shown.press("b")
        shown.app.jump_to("tensors", BASE + MIB // 2)
        await shown.settle()
        assert (shown.title, shown.view.filter_text) == ("m.layers.3.w2", "")
        await shown.deal(moment(MODEL, at=101.0))
        assert len(shown.view.tree.blocks) == 5
    assert len(threads) > 20
    assert set(threads) == {"gputui-trees"}


@pytest.mark.long
async def test_keys_work_while_a_tree_is_built(monkeypatch, many):
    go_on = threading.Event()
    original = tree_thread.build_tree
    monkeypatch.setattr(tree_thread, "build_tree", lambda *a: go_on.wait(HANGS_S) and original(*a))
    async with sitting(moment(many), size=(120, 40), kind=Shown) as shown:
        await shown.pilot.press("4")
        await shown.until(lambda: "Sorting the tensors ..." in shown.text)
        await shown.pilot.press("6")
        await shown.until(lambda: shown.screen == "ranks")
        await shown.pilot.press("4")
        await shown.until(lambda: shown.screen == "tensors")
        go_on.set()
        await shown.settle()
        assert f"allocated in {MANY:,} blocks" in shown.text
        go_on.clear()
        await shown.pilot.press("g", "down")
        await shown.until(lambda: shown.list.current is shown.list.entries[1])  # the previous tree stays usable
        shown.feed.deal(moment(MODEL, at=101.0))
        await shown.until(lambda: shown.app.attached.targets.current.moment.time == 101.0)
        go_on.set()
        await shown.settle()
        assert "by shape and type" in shown.text
        assert "26.0 MiB allocated in 5 blocks" in shown.text


def recording_thread(function, threads: list[str]):
    """Wraps `function` to append the name of the calling thread to `threads`."""

    def called(*arguments, **keywords):
        threads.append(threading.current_thread().name)
        return function(*arguments, **keywords)

    return called
