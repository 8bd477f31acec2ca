"""A look finds the program in the middle of something: what the program computes or records is the same without it."""

import pytest

from tests import torches

TRACING = [
    "jit_trace",
    "torch_export",
    "torch_fx",
    "make_fx_of_real_tensors",
    "make_fx_of_fake_tensors",
    "make_fx_with_symbolic_shapes",
    "make_fx_before_dispatch",
    "fake_tensors",
    "functorch_vmap",
    "functorch_grad",
    "functorch_jvp",
    "functorch_functionalize",
]
RECORDING = [
    "autocast",
    "inference_mode",
    "deterministic_mode",
    "anomaly_mode",
    "dispatch_and_function_modes",
    "default_device",
    "saved_tensor_hooks",
    "torch_profiler",
    "execution_trace",
]
ONLY_WITH_CUDA = ["cuda_graph_capture", "memory_history"]
COMPILING = ["compile_eager", "compile_aot_eager"]
LOOKS_IN_COMPILATION = 5


@pytest.mark.every_torch
@pytest.mark.parametrize("state", TRACING)
def test_a_tracer_does_not_record_a_look(torch_path, tmp_path, state):
    check(outcome(torch_path, tmp_path, "tracing_states.py", state))


@pytest.mark.every_torch
@pytest.mark.parametrize("state", RECORDING)
def test_a_mode_does_not_see_a_look(torch_path, tmp_path, state):
    check(outcome(torch_path, tmp_path, "recording_states.py", state))


@pytest.mark.parametrize("state", ONLY_WITH_CUDA)
def test_a_mode_of_cuda_does_not_see_a_look(cuda_path, tmp_path, state):
    check(outcome(cuda_path, tmp_path, "recording_states.py", state))


@pytest.mark.parametrize("state", COMPILING)
def test_looks_during_a_compilation_change_no_graph(torch_path, tmp_path, state):
    report = outcome(torch_path, tmp_path, "tracing_states.py", state)
    assert report["in_compilation"] >= LOOKS_IN_COMPILATION
    check(report)


def outcome(python, folder, program, state):
    environment = torches.fake_cuda(python, folder)
    programs = torches.REPOSITORY / "tests" / "probe" / "programs"
    return torches.run_program(python, programs / program, state, environment=environment)


def check(report):
    assert report["with"] == report["without"]
    assert report["looks"] >= 4
    assert report["empty"] == 0
    assert report["problems"] == []
