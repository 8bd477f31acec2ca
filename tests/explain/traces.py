"""Hand-made traces: a step of training as events with stacks, and the map at its end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from gputui.explain.memory.rounding import rounded_bytes
from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, Block, BlockState, CallSite, Segment
from gputui.model.attached.target import Cost, Look
from gputui.model.attached.tensors import Category, Inventory, Storage
from gputui.model.attached.trace import ACTIONS, RecordedTraces, RecordingCost, Trace
from gputui.units import GIB, MIB
from tests.explain.maps import statistics
from tests.explain.named import named

SETTINGS = AllocatorSettings("native", 20 * MIB, None, is_expandable=False, values=())
BASE = 1 << 40
TRAIN = "/home/ana/train.py"
MODULE = CallSite("/venv/torch/nn/modules/module.py", 1775, "_call_impl")
STACKS = {
    "forward": (MODULE, CallSite("/home/ana/model.py", 40, "forward"), MODULE, CallSite(TRAIN, 31, "step")),
    "loss": (CallSite("/venv/torch/nn/functional.py", 99, "cross_entropy"), CallSite(TRAIN, 32, "step")),
    "optimizer": (CallSite("/venv/torch/optim/adamw.py", 200, "step"), CallSite(TRAIN, 34, "step")),
    "backward": (),
}
PLACES = [name for name, stack in STACKS.items() if stack]


class Recording:
    """Writes a trace: each block gets a segment of its own, so that its size is what was rounded."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, str]] = []
        self.live: dict[int, int] = {}
        self._next = BASE
        self._kept: int | None = None
        self._storages: list[Storage] = []

    def alloc(self, mib: float, stack: str) -> int:
        """Allocate; the result is the block's address."""
        address, size = self._next, int(mib * MIB)
        self._next += GIB
        self.rows += [("segment_alloc", address, _segment_bytes(size), stack), ("alloc", address, size, stack)]
        self.live[address] = size
        return address

    def name(self, address: int, owner: str, category: Category, module: str = "") -> None:
        """Have the look name a block."""
        size = self.live[address]
        self._storages.append(
            Storage(0, address, size, category, named(owner), "Tensor", (size // 4,), "float32", module=module)
        )

    def free(self, address: int, stack: str = "") -> None:
        """Free a block, and its segment."""
        size = self.live.pop(address)
        self.rows += [(action, address, size, stack) for action in ("free_requested", "free_completed")]
        self.rows.append(("segment_free", address, _segment_bytes(size), stack))

    def step(self, *, activations: Iterable[float] = (8, 16, 8), gradients: int = 2, kept_mib: float = 0) -> None:
        """A step: activations come in forward and go in backward, gradients go after the optimizer.

        A block of `kept_mib` comes in forward and goes at the end of the next step.
        """
        kept, self._kept = self._kept, self.alloc(kept_mib, "forward") if kept_mib else None
        saved = [self.alloc(mib, "forward") for mib in activations]
        saved.append(self.alloc(32, "loss"))
        grads = []
        for number, block in enumerate(reversed(saved)):
            work = self.alloc(12, "backward")
            self.free(block)
            if number < gradients:
                grads.append(self.alloc(4, "backward"))
            self.free(work)
        self.free(self.alloc(20, "optimizer"))
        for block in [*grads, *([kept] if kept else [])]:
            self.free(block)

    def trace(self, *, has_stacks: bool = True) -> Trace:
        """The trace of all events so far."""
        count = len(self.rows)
        return Trace(
            device=0,
            actions=bytes(ACTIONS.index(action) for action, *_ in self.rows),
            addresses=array("Q", [address for _, address, _, _ in self.rows]),
            sizes_bytes=array("Q", [size for _, _, size, _ in self.rows]),
            streams=array("Q", [0] * count),
            times_us=array("Q", [1_000_000 + 100 * number for number in range(count)]),
            stacks=array(
                "q", [PLACES.index(stack) if has_stacks and stack in PLACES else -1 for *_, stack in self.rows]
            ),
            stack_table=tuple(STACKS[name] for name in PLACES) if has_stacks else (),
        )

    def layout(self) -> AllocatorMap:
        """The map after all events."""
        segments = tuple(_segment(address, size) for address, size in sorted(self.live.items()))
        return AllocatorMap(segments, (), (), SETTINGS)

    def look(self) -> Look:
        """A look after all events."""
        layout, storages = self.layout(), tuple(storage for storage in self._storages if storage.address in self.live)
        inventory = Inventory(storages, "walk", is_of_one_moment=True)
        return Look(1.0, (statistics(layout),), SETTINGS, layout, inventory, Cost(1.0, 1.0))

    def recorded(self) -> RecordedTraces:
        """What a probe would have sent."""
        cost = RecordingCost(1.0, 2 * len(self.rows), 1.0, len(self.rows), 40.0)
        return RecordedTraces((self.trace(),), self.look(), 20_000, cost)


def _segment_bytes(size: int) -> int:
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


def _segment(address: int, size: int) -> Segment:
    whole, taken = _segment_bytes(size), rounded_bytes(SETTINGS, size)
    blocks = [Block(address, taken, size, BlockState.ACTIVE_ALLOCATED)]
    if whole > taken:
        blocks.append(Block(address + taken, whole - taken, 0, BlockState.INACTIVE))
    return Segment(0, address, whole, 0, whole == 2 * MIB, is_expandable=False, pool_id=(0, 0), blocks=tuple(blocks))
