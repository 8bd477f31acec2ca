"""The sentences about a server that has not started: whether it would, what takes how much, and flags to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gputui.explain.owners.names import counted
from gputui.explain.serving.ahead.command_line import FITTED, ServeFlags
from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import Start, Verdict
from gputui.explain.serving.capacity import LONGEST, NULL_BLOCKS, blocks_of_request
from gputui.units import GIB, MIB, format_bytes

PARTS = {
    "weights": "weights",
    "buffers": "engine's buffers",
    "activations": "activations' peak",
    "graphs": "CUDA graphs",
    "libraries": "libraries",
}
FULLER, FP8 = 0.95, "fp8"
DEVICES_AT_MOST = 8
_FEW = 10


def between_bytes(size: Between) -> str:
    """A range of bytes in one unit, "0.2 to 1.4 GiB"; one figure where both ends read the same."""
    least, most = format_bytes(size.least), format_bytes(size.most)
    if least == most:
        return most
    step, unit = (GIB, "GiB") if size.most >= GIB else (MIB, "MiB")
    digits = 1 if size.most / step < 100 else 0
    return f"{size.least / step:.{digits}f} to {size.most / step:.{digits}f} {unit}"


def between(least: float, most: float) -> str:
    """A range of numbers: with one decimal below 10, else whole; one figure where both ends read the same."""
    words = [f"{value:.1f}" if most < _FEW and value % 1 else f"{int(value):,}" for value in (least, most)]
    return words[0] if words[0] == words[1] else " to ".join(words)


def headline(start: Start) -> str:
    """Whether the server starts, and for how many tokens and requests its cache has room."""
    devices = start.flags.tensor_parallel_size
    where = f"on one {start.device.name}" if devices == 1 else f"on {devices} x {start.device.name}"
    verdict = start.verdict
    if verdict is Verdict.REFUSES:
        return f"It does not start {where}."
    tokens, length = between(start.worst.tokens, start.best.tokens), between(*lengths(start))
    says = "It starts" if verdict is Verdict.STARTS else "It is not sure to start"
    fits = f"its KV cache has room for {tokens} tokens, {requests(start)} requests of {length}"
    limit = start.settings.max_num_seqs or 0
    capped = f" (max_num_seqs lets {limit:,} run)" if start.worst.tokens / lengths(start)[0] > limit else ""
    return f"{says} {where}: {fits}{capped}."


def lengths(start: Start) -> tuple[int, int]:
    """max_model_len in the worst and in the best case, which differ where vLLM takes the longest that fits."""
    length = start.settings.max_model_len or 1
    if start.flags.max_model_len != FITTED:
        return length, length
    return min(length, start.worst.longest or 1), min(length, start.best.longest or 1)


def requests(start: Start) -> str:
    """How many requests of max_model_len fit."""
    shortest, longest = lengths(start)
    return between(start.worst.tokens / shortest, start.best.tokens / longest)


def error_words(start: Start) -> str:
    """vLLM's error in a sentence, "" where the server is sure to start."""
    if not start.error:
        return ""
    if start.verdict is Verdict.NOT_SURE:
        return f"With the least that the estimates leave, vLLM says: {start.error}"
    most = "" if start.worst.error == start.best.error else ", with the most that the estimates leave"
    return f"vLLM says{most}: {start.error}"


def weights_words(start: Start) -> str:
    """The weights' types, number and source, in a few words."""
    weights = start.weights
    kind = f"{weights.quantization}, {weights.dtype}" if weights.quantization else weights.dtype
    size = (
        f"{weights.parameters / 1e9:.2f} billion"
        if weights.parameters >= 1e8
        else f"{weights.parameters / 1e6:.1f} million"
    )
    return f"{kind}, {size}, {weights.source}"


def cache_words(start: Start) -> str:
    """The bytes of a token, the layers, and the size of a block, in a few words."""
    groups = start.cache.groups
    words = [
        f"{format_bytes(start.cache.bytes_per_token)} a token",
        counted(sum(group.layers or 0 for group in groups), "layer"),
    ]
    windowed = sum(group.layers or 0 for group in groups if group.sliding_window)
    if windowed:
        words.append(f"{windowed} with a window of {max(group.sliding_window or 0 for group in groups):,}")
    words.append(f"blocks of {groups[0].block_size}")
    return ", ".join(words)


def length_words(start: Start) -> str:
    """How long a request can be, and what the model's own length needs; "" where the length is not the trouble."""
    length, made_for = start.settings.max_model_len or 0, start.model.longest
    if not 0 < start.best.longest < LONGEST or (start.verdict is Verdict.REFUSES and start.best.longest >= length):
        return ""  # what is wrong is not the length
    words = f"The cache allows a max_model_len of up to {between(start.worst.longest, start.best.longest)}"
    if not made_for or made_for == length:
        return f"{words}." if not made_for else f"{words}; the model was made for {made_for:,}."
    needed = blocks_of_request(start.cache.groups, made_for, start.settings)
    size = format_bytes(((needed or 0) + NULL_BLOCKS) * start.cache.bytes_per_block)
    return f"{words}; the {made_for:,} that the model was made for need {size}."


def other_flags(start: Start) -> Iterator[tuple[str, ServeFlags]]:
    """Flags to try: the flag as it is written, and all flags with this one changed."""
    flags = start.flags
    longest = start.worst.longest // 1024 * 1024
    if start.worst.error and 0 < longest < (start.settings.max_model_len or 0):
        yield f"--max-model-len {longest}", replace(flags, max_model_len=longest)
    if (start.settings.gpu_memory_utilization or 1) < FULLER:
        yield f"--gpu-memory-utilization {FULLER}", replace(flags, gpu_memory_utilization=FULLER)
    if not (start.settings.kv_cache_dtype or "").startswith(FP8):
        yield "--kv-cache-dtype fp8", replace(flags, kv_cache_dtype=FP8)
    if not start.model.quantization and not flags.quantization:
        yield "--quantization fp8", replace(flags, quantization=FP8)
    devices = flags.tensor_parallel_size * 2
    if devices <= DEVICES_AT_MOST and start.model.heads % devices == 0:
        yield f"--tensor-parallel-size {devices}", replace(flags, tensor_parallel_size=devices)


def doubts(start: Start) -> tuple[str, ...]:
    """Sentences about what the figures leave out."""
    apart = start.flags.apart
    others = [f"The figures are those without {', '.join(apart)}."] if apart else []
    return (*start.model.doubts, *others)
