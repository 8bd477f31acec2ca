"""What arrives in one packet acts as if each key had been typed once the one before was done."""

from __future__ import annotations

import random

import pytest
from textual._xterm_parser import XTermParser

from gputui.ui.screens.process import NOT_READ_YET
from tests.scale import scaled
from tests.ui.monitor import Monitor, open_monitor

ESC = "\x1b[27u"
PASTE = "\x1b[200~user==carla\x1b[201~"
CASES = {
    "an order": "og",
    "a reversed order": "oG",
    "a filter": "/vllm\r",
    "a filter, and an order": "/carla\rog",
    "a filter that is dropped, and an order": f"/vllm{ESC}og",
    "a pasted filter": f"/{PASTE}\r",
    "a pasted filter, and more typed": f"/{PASTE} and mem>1GiB\r",
    "a pasted filter, and an order": f"/{PASTE}\rog",
    "several orders": "ogopoc",
    "an order in the filter that follows": "og/og",
    "a process": "jj\r",
    "a process, and back": f"jj\r{ESC}j",
    "a process's environment": "je",
    "a device": "\t\r",
    "help, and a filter after it": f"?{ESC}/vllm\r",
    "a signal that is not sent": "jK\rj",
    "a signal chosen, and not sent": f"\x1b[20~{ESC}og",
}
RANDOM_KEYS = [*"ogOGjk/vllmtrwpcz? e\t\r", ESC, PASTE]
PACKETS = scaled(6, 400)
"""How many random packets are typed."""


def type_in(monitor: Monitor, text: str) -> None:
    """Hand the application all events of a packet, as the driver does."""
    for event in XTermParser().feed(text):
        monitor.app.post_message(event)


def keys_of(text: str) -> list[str]:
    """The packet in parts that are typed one by one."""
    parts, rest = [], text
    while rest:
        whole = next((part for part in (PASTE, ESC, "\x1b[20~") if rest.startswith(part)), rest[0])
        parts.append(whole)
        rest = rest[len(whole) :]
    return parts


async def shown(text: str, *, slowly: bool) -> str:
    async with open_monitor() as monitor:
        for part in keys_of(text) if slowly else [text]:
            type_in(monitor, part)
            await monitor.settle()
            await monitor.until(lambda: NOT_READ_YET not in monitor.text)  # another thread reads that
        return "" if monitor.app._exit else monitor.text


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES.keys())
async def test_a_packet_acts_as_its_keys_typed_slowly(keys: str) -> None:
    slowly = await shown(keys, slowly=True)
    assert await shown(keys, slowly=False) == slowly


@pytest.mark.parametrize("seed", range(PACKETS))
async def test_random_packets_act_as_their_keys_typed_slowly(seed: int) -> None:
    keys = "".join(random.Random(seed).choices(RANDOM_KEYS, k=10))
    slowly = await shown(keys, slowly=True)
    assert await shown(keys, slowly=False) == slowly, repr(keys)
