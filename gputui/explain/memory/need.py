"""What a program needs at the top of each step, and how much of it is held only within the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gputui.explain.owners.tensor_paths import module_of
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.target import Look, Swing
from gputui.model.attached.tensors import CATEGORIES, NAMELESS, Category
from gputui.units import format_bytes

LEAST_SWING = 0.05
"""Of the highest allocated bytes: memory that rises and falls by less is not worth a sentence."""
OF_PEAK = 0.75
"""PyTorch's peak counts as the top of a step if reads reached this share of it: the very top lasts microseconds."""
NEAR = 0.1
MOST = 0.5
SHARE_OF_STEM = 0.5
"""A module is named if it and the modules below it have this share of the activations."""
PASSING = (Category.ACTIVATION, Category.GRADIENT, Category.KV_CACHE)
"""What is likely to be freed within a step, where only its top was looked at: other tensors may be kept."""
TRAINS = (Category.GRADIENT, Category.OPTIMIZER_STATE, Category.ACTIVATION)


@dataclass(frozen=True, slots=True)
class Need:
    """The highest and lowest allocated bytes of a step; `step_s`, how long a step takes, is None where not known."""

    highest_bytes: int
    lowest_bytes: int
    step_s: float | None

    @property
    def within_bytes(self) -> int:
        """The bytes that are held only within the step."""
        return self.highest_bytes - self.lowest_bytes


def need_of(device: DeviceMoment) -> Need | None:
    """What each step needs; None where memory hardly rises and falls, or nobody has watched whether it does."""
    swing = device.swing
    if swing is None or swing.highest_allocated_bytes <= 0:
        return None
    peak, of_look = device.statistics.peak_allocated_bytes, device.top.statistics.allocated_bytes if device.top else 0
    highest = max(swing.highest_allocated_bytes, of_look)
    if highest >= OF_PEAK * peak:
        highest = max(highest, peak)  # the program may have reset the peak
    need = Need(highest, swing.lowest_allocated_bytes, swing.step_s)
    return need if need.within_bytes >= LEAST_SWING * highest else None


def looked_at(device: DeviceMoment) -> str | None:
    """Where in the step the newest look was taken: "top", "bottom" or "between"; None without a look or a step."""
    swing, need = device.swing, need_of(device)
    if swing is None or need is None or device.layout is None:
        return None
    allocated, lowest = device.layout.statistics.allocated_bytes, need.lowest_bytes
    if allocated >= (1 - NEAR) * swing.highest_allocated_bytes:
        return "top"
    return "bottom" if allocated - lowest <= NEAR * (swing.highest_allocated_bytes - lowest) else "between"


def moves(swing: Swing) -> bool:
    """Whether allocated memory rises and falls so much that it matters when in a step a look is taken."""
    highest = swing.highest_allocated_bytes
    return highest - swing.lowest_allocated_bytes >= LEAST_SWING * highest > 0


def is_high_enough(swing: Swing, look: Look) -> bool:
    """Whether a look is as near to the top of a step as looks come: none can be taken in a backward pass."""
    allocated = [counted.allocated_bytes for counted in look.statistics if counted.device == swing.device]
    return any(each >= OF_PEAK * swing.highest_allocated_bytes for each in allocated)


def need_words(need: Need, top: DeviceLayout | None, now: DeviceLayout | None) -> tuple[str, str]:
    """A sentence about the need, and the module it names, or "": `top` is a look near the top, `now` the newest."""
    is_training = top is not None and any(top.by_category.get(category, 0) for category in TRAINS)
    most, stem = _most_words(need, top, now) if top else ("", "")
    highest, within = format_bytes(need.highest_bytes), format_bytes(need.within_bytes)
    if is_training or need.step_s:
        return f"Each step needs up to {highest} of the device; {within} of it only within the step{most}.", stem
    spoken = f"The program needed up to {highest} of the device in the last minute; {within} of it for a while{most}."
    return spoken, stem


def _most_words(need: Need, top: DeviceLayout, now: DeviceLayout | None) -> tuple[str, str]:
    """The category that rises most within a step, in words; for activations, also the module that saves most of them.

    Memory without a name is left out: it helps nobody here. The words are "" where the category rises by more than all
    memory within a step: then the program has changed between the two looks.
    """
    is_lower = now is not None and now.statistics.allocated_bytes < top.statistics.allocated_bytes
    before = now.by_category if now is not None and is_lower else dict.fromkeys(PASSING, 0)
    named = (name for name in Category if name not in NAMELESS)
    risen = {name: top.by_category.get(name, 0) - before.get(name, top.by_category.get(name, 0)) for name in named}
    category = max(risen, key=lambda name: risen[name])
    if not LEAST_SWING * need.within_bytes <= risen[category] <= (1 + NEAR) * need.within_bytes:
        return "", ""
    is_most = risen[category] >= MOST * need.within_bytes
    amount = "most of it" if is_most else f"{format_bytes(risen[category])} of it"
    if category is not Category.ACTIVATION:
        size = f" ({format_bytes(risen[category])})" if is_most else ""
        return f", {amount} {CATEGORIES[category].plural}{size}", ""
    stem, stem_bytes = stem_of(activations_by_module(top))
    if not stem:
        return f", {amount} activations" + (f" ({format_bytes(risen[category])})" if is_most else ""), ""
    if stem_bytes >= MOST * need.within_bytes:
        return f", most of it activations of {stem} ({format_bytes(stem_bytes)})", stem
    return f", {format_bytes(risen[category])} of it activations, {format_bytes(stem_bytes)} of them in {stem}", stem


def activations_by_module(layout: DeviceLayout) -> dict[str, int]:
    """The bytes of activations by the path of the module that saved them, "" where none is known."""
    sums: Counter[str] = Counter()
    for blocker in layout.blockers:
        if blocker.owner.category is Category.ACTIVATION:
            sums[module_of(blocker.owner)] += blocker.block.size_bytes
    return dict(sums)


def stem_of(by_module: Mapping[str, int]) -> tuple[str, int]:
    """The innermost module with `SHARE_OF_STEM` of these bytes, submodules included, and its bytes; or ("", 0)."""
    sums: Counter[str] = Counter()
    for module, size_bytes in by_module.items():
        parts = module.split(".") if module else []
        for length in range(1, len(parts) + 1):
            sums[".".join(parts[:length])] += size_bytes
    total = sum(by_module.values())
    large = [(name.count("."), name) for name, size_bytes in sums.items() if size_bytes >= SHARE_OF_STEM * total]
    name = max(large, default=(0, ""))[1]
    return name, sums[name]
