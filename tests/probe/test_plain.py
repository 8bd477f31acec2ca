"""How the keys of dictionaries are shown in names."""

import pytest

from gputui.probe.objects.plain import key_text

WEIGHT = "base_model.model.model.layers.31.self_attn.q_proj.lora_A.default.weight"
SHOWN = {
    "a number": (-3, "-3"),
    "a hash of 128 bits": (2**128 - 1, "340282366920938463463374607431768211455"),
    "a number that Python would not write": (10**5000, "int"),
    "the name of a parameter": (WEIGHT, f"'{WEIGHT}'"),
    "a tuple": ((3, "loss"), "(3, 'loss')"),
    "another object": (b"key", "bytes"),
}


@pytest.mark.parametrize(("key", "shown"), SHOWN.values(), ids=SHOWN)
def test_a_key_is_shown_as_in_python_or_by_its_type(key, shown):
    assert key_text(key) == shown


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_long_text_is_shown_by_its_beginning_and_its_end(quote):
    prompts = [f"{'You are helpful. ' * 6000}What is {number} + {quote}4{quote}?" for number in range(3)]
    texts = list(map(key_text, prompts))
    assert len(set(texts)) == len(prompts)
    for text in texts:
        assert text[1:].startswith("You are helpful. ")
        assert text[:-1].endswith("?")
        assert text[0] == text[-1]
        assert len(text) < 200
    assert key_text((1, prompts[0])) == f"(1, {texts[0]})"
