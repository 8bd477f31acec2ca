"""Marks the cases of the longest tests that wait for a night: by day one of so many runs.

All run with GPUTUI_TEST_SCALE above 1, as in `python -m benchmarks.nightly`, and where the command names single tests.
"""

from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
BY_DAY = {
    "attach/test_cycles.py": {
        "test_nothing_is_said_to_be_freed_that_stays": 3,
        "test_what_a_collection_frees_is_told_to_the_byte": 3,
    },
    "attach/test_keepers.py": {
        "test_the_variable_is_named_after_a_few_automatic_looks": 5,
    },
    "attach/test_sick.py": {
        "test_a_cured_program_does_not_get_the_finding": 3,
        "test_the_answer_names_the_holder_and_the_remedy": 3,
    },
    "attach/test_three_keys.py": {
        "test_why_names_the_cause_and_the_remedy": 2,
    },
    "attach/test_waiting.py": {
        "test_tensors_of_a_program_that_waits_are_named": 2,
    },
    "attach/test_weight_copies.py": {
        "test_a_copy_of_the_weights_is_one_finding_with_its_remedy": 2,
    },
    "blackbox/test_failures.py": {
        "test_errors_of_others_than_the_allocator_are_kept_when_they_end_the_program": 2,
        "test_the_box_has_the_request_its_place_and_every_allocated_byte": 2,
    },
    "explain/answer/test_examples.py": {
        "test_at_every_moment_of_a_recording_the_rows_add_up_to_the_counters": 3,
        "test_when_an_example_opens_and_at_its_end_the_answer_names_the_holder_and_the_remedy": 3,
    },
    "faults/test_faults.py": {
        "test_a_fault_is_a_sentence_and_a_signal_ends_it_without_words": 3,
    },
    "faults/test_faults_on_screen.py": {
        "test_an_application_survives_or_says_a_sentence": 3,
    },
    "fuzz/test_viewer.py": {
        "test_random_keys_are_served_whatever_a_target_sends": 2,
        "test_most_mutations_are_of_the_kind_that_they_claim": 3,
    },
    "inject/test_kill.py": {
        "test_a_kill_of_the_tracer_leaves_the_program_running": 3,
    },
    "inject/test_loading.py": {
        "test_a_program_does_not_notice_that_a_probe_comes_and_goes": 3,
    },
    "probe/test_inventory.py": {
        "test_nearly_every_allocated_byte_has_an_owner": 3,
    },
    "probe/test_monsters.py": {
        "test_no_look_takes_more_than_its_steps": 3,
    },
    "probe/test_program_states.py": {
        "test_a_mode_does_not_see_a_look": 2,
        "test_a_tracer_does_not_record_a_look": 3,
    },
    "reports/test_reports.py": {
        "test_the_first_lines_answer_the_report_and_the_remedy_works": 4,
    },
    "terminal/test_environments.py": {
        "test_it_draws_in_ascii_where_the_terminal_or_locale_requires_it": 3,
    },
    "test_empty_proc.py": {
        "test_an_empty_proc_is_named": 3,
    },
    "trust/test_refused_calls.py": {
        "test_a_call_that_fails_in_the_probe_is_not_the_programs_fault": 3,
    },
    "ui/attach/test_screens.py": {
        "test_without_colours_and_in_ascii": 3,
    },
    "ui/test_screens.py": {
        "test_with_ascii_every_cell_is_ascii": 3,
    },
    "ui/test_states.py": {
        "test_every_screen_fits_every_size": 2,
    },
    "ui/test_typed_ahead.py": {
        "test_a_packet_acts_as_its_keys_typed_slowly": 3,
        "test_random_packets_act_as_their_keys_typed_slowly": 2,
    },
    "whatif/test_ahead.py": {
        "test_the_peak_is_that_of_a_real_run": 2,
    },
    "whatif/test_random_requests.py": {
        "test_the_replay_reserves_what_the_program_reserves": 2,
    },
    "whatif/test_training_steps.py": {
        "test_another_batch_takes_what_a_real_run_takes": 3,
        "test_other_settings_give_what_a_real_run_takes": 3,
        "test_the_recorded_settings_give_the_recorded_peaks": 3,
    },
}
"""Which tests have one of so many cases by day, the first among them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Runs before -m, which selects by marks, and before `left_out`, which leaves these out by day."""
    met = Counter()
    for item in items:
        test = str(item.path.relative_to(TESTS)), getattr(item, "originalname", item.name)
        every = BY_DAY.get(test[0], {}).get(test[1], 1)
        if met[test] % every:
            item.add_marker("night")
        met[test] += 1
