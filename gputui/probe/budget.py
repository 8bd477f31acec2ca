"""Which automatic looks may be taken: none that would hold up the program's threads for long.

The cost of a look is predicted from the number of live blocks, and from how far the last look of its kind was off that
prediction. It is counted in processor time, so that a machine busy with other work makes no program look expensive.

A look takes the inventory of tensors by one of these methods: "scan" (every Python object), "walk" (what variables,
modules, optimizers and the autograd graph lead to) or "" (no inventory: the allocator's map alone).
"""

from __future__ import annotations

LIMIT_MS = 5.0
"""The longest an automatic look may take."""

# Milliseconds of a look by its inventory method: at least, and per live block. A walk over a GPT of 24 layers (1,877
# storages) takes 8 ms, the map of 10,000 blocks 3 ms, and a scan visits the 250,000 objects that PyTorch alone makes.
EXPECTED_MS = {"scan": (50.0, 0.005), "walk": (1.0, 0.005), "": (0.3, 0.0003)}
METHODS = tuple(EXPECTED_MS)
"""The most expensive first: each is a part of the one before."""

COLD = 0.1
"""The first look of a kind runs code and touches memory for the first time: later ones may cost this fraction of it."""

ON_REQUEST = "Looks at this program take about {:.0f} ms: they are taken on request only."
TENSORS_ON_REQUEST = "Tensors are looked at on request only: with them a look takes about {:.0f} ms."
RECORDS = "The program records its memory history, in which each look leaves an entry: looks are taken on request only."


def on_request(text: str) -> dict[str, str]:
    """A `Problem` that a look on request solves, as it goes over the wire."""
    return {"text": text, "kind": "look_on_request"}


class Budget:
    """Predicts what looks at this program take, and learns from those that were taken."""

    def __init__(self) -> None:
        self._factors = dict.fromkeys(METHODS, 1.0)
        self._cold = set(METHODS)

    def learn(self, method: str, blocks: int, took_ms: float) -> None:
        """Correct the prediction by a look that was taken."""
        factor = took_ms / _expected_ms(method, blocks)
        is_cold = method in self._cold
        self._factors[method] = max(min(factor, 1.0), factor * COLD) if is_cold else factor
        self._cold.discard(method)

    def affordable(self, method: str, blocks: int) -> tuple[str | None, str]:
        """The most that may be taken of a look by `method` (None: nothing), and a sentence if that is less."""
        asked_ms = self._predicted_ms(method, blocks)
        for affordable in METHODS[METHODS.index(method) :]:
            if self._predicted_ms(affordable, blocks) <= LIMIT_MS:
                return affordable, "" if affordable == method or affordable else TENSORS_ON_REQUEST.format(asked_ms)
        return None, ON_REQUEST.format(asked_ms)

    def _predicted_ms(self, method: str, blocks: int) -> float:
        return _expected_ms(method, blocks) * self._factors[method]


def _expected_ms(method: str, blocks: int) -> float:
    at_least_ms, block_ms = EXPECTED_MS[method]
    return at_least_ms + blocks * block_ms
