"""A look finds the program in the middle of something: what the program computes or records is the same without it."""

import pytest

from gputui.probe.looks.torch_reader import FREEING

TRACING = [
    "jit_trace",
    "jit_trace_of_a_custom_operation",
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
FREEING_TENSORS = ["backward_pass_that_frees_tensors", "gradients_that_are_freed"]
COMPILING = ["compile_eager", "compile_aot_eager"]
LOOKS_IN_COMPILATION = 3


@pytest.fixture(scope="session")
def tracing(run_once):
    return run_once("tracing_states.py", *TRACING)


@pytest.fixture(scope="session")
def recording(run_once):
    return run_once("recording_states.py", *RECORDING, *FREEING_TENSORS)


@pytest.mark.every_torch
@pytest.mark.parametrize("state", TRACING)
def test_a_tracer_does_not_record_a_look(tracing, state):
    check(tracing[state])


@pytest.mark.every_torch
@pytest.mark.parametrize("state", RECORDING)
def test_a_mode_does_not_see_a_look(recording, state):
    check(recording[state])


@pytest.mark.every_torch
@pytest.mark.parametrize("state", FREEING_TENSORS)
def test_a_look_while_pytorch_frees_a_tensor_leaves_tensors_out(recording, state):
    report = recording[state]
    assert report["with"] == report["without"]
    assert report["looks"] == report["empty"] == 8
    assert report["problems"] == [FREEING]


def test_a_mode_of_cuda_does_not_see_a_look(run_program):
    for report in run_program("recording_states.py", *ONLY_WITH_CUDA).values():
        check(report)


def test_looks_during_a_compilation_change_no_graph(run_once):
    for report in run_once("tracing_states.py", *COMPILING).values():
        assert report["in_compilation"] >= LOOKS_IN_COMPILATION
        assert report["with"] == report["without"]
        assert report["looks"] > report["empty"]
        assert set(report["problems"]) <= {FREEING}


def check(report):
    assert report["with"] == report["without"]
    assert report["looks"] >= 4
    assert report["empty"] == 0
    assert report["problems"] == []


@pytest.fixture(scope="session")
def traced(run_once):
    return run_once("traced.py")


@pytest.mark.every_torch
@pytest.mark.parametrize(
    "name",
    [
        "a_profile_function_sees_the_program_only",
        "a_trace_function_sees_the_program_only",
        "a_profile_function_of_all_threads_sees_the_program_only",
        "a_profile_function_of_the_probes_own_thread_sees_the_end_of_all_that_it_sees_begin",
        "a_trace_function_of_the_probes_own_thread_sees_no_line_more_for_more_rounds",
        "a_c_profile_has_the_program_only",
        "monitoring_tools_see_the_program_only",
        "a_debugger_stops_in_the_program_only",
        "tracing_goes_on_after_a_signal_handler_has_raised_through_a_call",
        "a_profile_that_begins_in_a_signal_handler_works_after_the_call",
        "a_call_within_a_profile_function_of_the_program_changes_nothing",
    ],
)
def test_under_profilers_and_tracers_of_python(traced, name):
    assert traced[name] == ""


def test_no_check_of_profilers_is_left_out(traced):
    assert len(traced) == 11
