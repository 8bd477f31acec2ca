"""Deals the longest tests to the beginnings of all workers' shares: while one that began last runs, cores are idle."""

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
LONGEST = {
    "archive/test_peaks.py": {"test_a_probe_tells_the_record_what_was_allocated_of_what_was_held"},
    "attach/test_attach.py": {"test_devices_are_found_through_cuda_visible_devices"},
    "attach/test_far.py": {"test_ranks_of_a_job_on_two_machines_stand_beside_each_other"},
    "attach/test_looks.py": {"test_many_looks_leak_no_references_or_memory"},
    "attach/test_replaced_threads.py": {"test_looks_at_a_program_of_gevents"},
    "attach/test_sick_cells.py": {"test_the_answer_between_cells_names_the_holder_and_its_remedy_makes_the_finding_go"},
    "attach/test_weight_copies.py": {"test_a_copy_of_the_weights_is_one_finding_with_its_remedy"},
    "blackbox/test_lifecycle.py": {
        "test_every_rank_of_torchrun_can_be_attached_to_keeps_its_error_and_names_the_file",
    },
    "check/test_command.py": {
        "test_the_plugin_of_pytest_fails_with_what_holds_the_peak",
        "test_the_plugin_of_pytest_can_measure_on_a_gpu",
    },
    "explain/answer/test_examples.py": {"test_at_every_moment_of_a_recording_the_rows_add_up_to_the_counters"},
    "faults/test_faults.py": {"test_a_fault_is_a_sentence_and_a_signal_ends_it_without_words"},
    "fleet/test_nodes.py": {"test_a_driver_there_that_hangs_is_a_finding_of_that_node"},
    "inject/test_unprepared_training.py": {
        "test_attaching_to_an_unprepared_training_program_describes_it",
        "test_one_answer_puts_the_probe_into_all_ranks_of_a_job",
    },
    "probe/test_boundary.py": {"test_no_exception_at_a_line_of_the_probe_reaches_the_program"},
    "probe/test_looks_in_turn.py": {"test_each_look_names_what_is_there_at_its_moment"},
    "probe/test_many_threads.py": {"test_many_threads_make_looks_little_dearer_and_lose_no_name"},
    "probe/test_monsters.py": {"test_no_look_takes_more_than_its_steps"},
    "probe/test_program_states.py": {
        "test_a_tracer_does_not_record_a_look",
        "test_looks_during_a_compilation_change_no_graph",
    },
    "reports/test_reports.py": {"test_the_first_lines_answer_the_report_and_the_remedy_works"},
    "terminal/test_sizes.py": {"test_every_screen_survives_every_size"},
    "trust/test_hostile_target.py": {"test_no_name_in_a_program_can_control_the_terminal"},
    "trust/test_odd_programs.py": {"test_looks_change_nothing"},
    "trust/test_same.py": {"test_a_viewer_changes_nothing_in_a_training_run"},
    "trust/test_soak.py": {"test_a_short_soak"},
    "ui/attach/test_after_a_week.py": {
        "test_a_frame_after_days_costs_what_one_after_ten_minutes_does_and_every_time_can_be_shown",
    },
    "ui/test_crowd.py": {"test_a_crowd_that_comes_and_goes_each_second_is_read_once_and_forgotten"},
    "whatif/test_ahead.py": {"test_a_function_may_return"},
}
"""Tests that take more than 12 s while others run beside them."""


def is_long(item: pytest.Item) -> bool:
    """Whether the table has a test."""
    names = LONGEST.get(str(item.path.relative_to(TESTS)), ())
    return getattr(item, "originalname", item.name) in names


def dealt(long: list, others: list, shares: int) -> list:
    """All, in an order in which the shares that pytest-xdist gives to its workers begin with the long ones."""
    order, rest = [], [*others]
    for number in range(shares):
        own = long[number::shares]
        size = (len(long) + len(others) - len(order)) // (shares - number)
        taken = max(0, size - len(own))
        order += [*own, *rest[:taken]]
        del rest[:taken]
    return order + rest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Runs after all that leave tests out."""
    result = yield
    if hasattr(config, "workerinput"):
        long = [item for item in items if is_long(item)]
        items[:] = dealt(long, [item for item in items if not is_long(item)], config.workerinput["workercount"])
    return result
