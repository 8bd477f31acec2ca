"""Activations stand under the module whose forward saved them."""

import pytest

AT_LEAST_IN_THE_RIGHT_BLOCK = 0.95
MODELS = ("gpt", "gpt_with_checkpointing", "resnet", "unet")


@pytest.mark.parametrize("model", MODELS)
def test_activations_belong_to_the_right_block_of_layers(run_once, model):
    checked = run_once("layers.py")[model]
    assert checked["total_bytes"] > 0
    share = checked["in_block_bytes"] / checked["total_bytes"]
    assert share >= AT_LEAST_IN_THE_RIGHT_BLOCK, checked["wrong"]
