"""The unpickler: it reads what Python's reads, if that is plain data, and refuses the rest within bounds."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.sources.files.torch_snapshot import unpickle as module
from gputui.sources.files.torch_snapshot.unpickle import PickleError, unpickle
from tests.scale import scaled

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(allow_nan=False), st.text(max_size=300)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=8), inner, max_size=5),
    ),
    max_leaves=30,
)


def read(data: bytes) -> object:
    return unpickle(io.BytesIO(data), lambda _: None)[0]


@settings(max_examples=scaled(30, 60), deadline=None)
@given(value=PLAIN, protocol=st.integers(2, 5), is_optimized=st.booleans())
def test_plain_data_is_read_as_python_reads_it(value, protocol, is_optimized):
    data = pickle.dumps([value, value, {"again": value}], protocol)
    assert read(pickletools.optimize(data) if is_optimized else data) == [value, value, {"again": value}]


def test_a_window_can_end_anywhere(monkeypatch):
    value = [{"action": "alloc", "size": n, "text": "x" * n, "pair": (n, -n)} for n in range(200)]
    data = pickle.dumps(value)
    for window_bytes in (1, 2, 7, 100):
        monkeypatch.setattr(module, "WINDOW_BYTES", window_bytes)
        own, events = unpickle(io.BytesIO(data), lambda _: None)
        runs = [entry for entry in own if not isinstance(entry, dict)]
        assert len(own) - len(runs) + sum(run.end - run.start for run in runs) == 200
        assert sum(events.sizes_bytes) + sum(entry["size"] for entry in own if isinstance(entry, dict)) == sum(
            range(200)
        )


class Evil:
    def __reduce__(self):
        return os.system, ("echo pwned > /tmp/pwned",)


GIANT = struct.pack("<Q", 2**62)
HOSTILE = {
    "an object": (pickle.dumps([Evil()]), "it holds objects"),
    "a class": (pickle.dumps(OSError), "it holds objects"),
    "a persistent id": (b"\x80\x02Pid\n.", "it holds objects"),
    "an extension": (b"\x80\x02\x82\x01.", "it holds objects"),
    "bytes": (pickle.dumps(b"x"), "it holds bytes"),
    "a bytearray of 4 EiB": (b"\x80\x05\x96" + GIANT + b"x", "it holds bytes"),
    "a set": (pickle.dumps({1}), "it holds a set"),
    "a text of 4 EiB": (b"\x80\x04\x8d" + GIANT + b"x", "it holds a text of 4611686018427387904 bytes"),
    "a number of 2 GiB": (b"\x80\x02\x8b\xff\xff\xff\x7f", "it holds a number of 2147483647 bytes"),
    "a number of negative length": (b"\x80\x02\x8b\xff\xff\xff\xff.", "it holds a number of -1 bytes"),
    "a memo of 4 billion": (b"\x80\x02]r\xff\xff\xff\xff.", "it is damaged"),
    "a reference to nothing": (b"\x80\x02h\x05.", "it is damaged"),
    "keys that are numbers": (pickle.dumps({2**61 - 1: 1}), "a key of it is not a text"),
    "keys that are lists": (b"\x80\x02}]Ns.", "a key of it is not a text"),
    "an odd number of items": (b"\x80\x02}(Nu.", "it is damaged"),
    "an end without an object": (b"\x80\x02.", "it is damaged"),
    "an item for no list": (b"\x80\x02NNa.", "it is damaged"),
    "no mark": (b"\x80\x02]e.", "it is damaged"),
    "a text that is no UTF-8": (b"\x80\x02X\x01\0\0\0\xff.", "it is damaged"),
    "the text protocol": (b"\x80\x02I1\n.", "it is of an old protocol of pickle"),
    "a later protocol": (b"\x80\x09N.", "it is of another protocol of pickle"),
    "an unknown instruction": (b"\x80\x02\xff.", "it is damaged"),
    "no end": (b"\x80\x02]", "it was cut off"),
    "a frame of 4 EiB": (b"\x80\x04\x95" + GIANT, "it was cut off"),
    "nothing": (b"", "it was cut off"),
}


@pytest.mark.parametrize(("data", "words"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused_with_a_reason(data, words):
    with pytest.raises(PickleError) as refusal:
        read(data)
    assert str(refusal.value).startswith(words)


def test_a_cut_file_is_refused_wherever_it_is_cut():
    data = pickle.dumps({"segments": [{"address": 2**40, "blocks": [], "text": "x" * 300}], "pair": (1.5, None)})
    for end in range(len(data)):
        with pytest.raises(PickleError, match="it was cut off"):
            read(data[:end])


BOMBS = {"lists": b"]" * 64, "dictionaries": b"}" * 64, "numbers": b"J\x01\x02\x03\x04" * 16, "marks": b"(" * 64}
BOMBS["the memo"] = b"\x94" * 64


@pytest.mark.parametrize("instructions", BOMBS.values(), ids=BOMBS)
def test_memory_is_bounded(monkeypatch, instructions):
    monkeypatch.setattr(module, "MEMORY_BYTES", 2 * 1024**2)
    monkeypatch.setattr(module, "WINDOW_BYTES", 4096)
    data = b"\x80\x04]" + instructions * (768 * 1024 // len(instructions))
    tracemalloc.start()
    try:
        with pytest.raises(PickleError, match="its objects would take more than"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 6 * 1024**2
    finally:
        tracemalloc.stop()


def test_a_reader_can_stop_the_reading():
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpickle(io.BytesIO(pickle.dumps([1])), stop)


def test_deep_nesting_is_read():
    assert read(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
