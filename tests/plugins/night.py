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
        "test_the_variable_is_named_after_a_few_automatic_looks": 13,
    },
    "attach/test_notebook.py": {
        "test_outputs_that_only_ipython_keeps_are_named_after_its_variables": 2,
        "test_the_cure_for_outputs_frees_them": 2,
    },
    "attach/test_program_names.py": {
        "test_what_has_a_name_of_the_standard_library_is_the_programs": 2,
    },
    "attach/test_screen_bytes.py": {
        "test_a_moment_costs_at_most_two_kibibytes": 2,
    },
    "attach/test_sick.py": {
        "test_a_cured_program_does_not_get_the_finding": 3,
        "test_the_answer_names_the_holder_and_the_remedy": 4,
        "test_the_answer_names_the_line_of_a_script_that_assigns_a_global_variable": 2,
        "test_a_healthy_program_gets_no_finding_of_weight": 2,
    },
    "attach/test_three_keys.py": {
        "test_why_names_the_cause_and_the_remedy": 2,
    },
    "attach/test_top.py": {
        "test_a_look_near_the_top_shows_the_activations": 2,
        "test_a_single_look_says_what_a_step_needs": 2,
    },
    "attach/test_waiting.py": {
        "test_tensors_of_a_program_that_waits_are_named": 2,
    },
    "attach/test_weight_copies.py": {
        "test_a_copy_of_the_weights_is_one_finding_with_its_remedy": 4,
    },
    "blackbox/test_failures.py": {
        "test_errors_of_others_than_the_allocator_are_kept_when_they_end_the_program": 2,
        "test_the_box_has_the_request_its_place_and_every_allocated_byte": 3,
    },
    "explain/answer/test_examples.py": {
        "test_at_every_moment_of_a_recording_the_rows_add_up_to_the_counters": 5,
        "test_when_an_example_opens_and_at_its_end_the_answer_names_the_holder_and_the_remedy": 3,
        "test_after_a_jump_to_where_an_example_opens_the_answer_is_the_same": 4,
    },
    "explain/machine/test_input.py": {
        "test_a_real_data_loader_is_judged_by_what_its_processes_do": 2,
    },
    "faults/test_faults.py": {
        "test_a_fault_is_a_sentence_and_a_signal_ends_it_without_words": 3,
    },
    "faults/test_faults_on_screen.py": {
        "test_an_application_survives_or_says_a_sentence": 3,
        "test_a_signal_at_any_step_restores_the_terminal": 2,
    },
    "fuzz/test_viewer.py": {
        "test_random_keys_are_served_whatever_a_target_sends": 2,
        "test_most_mutations_are_of_the_kind_that_they_claim": 3,
        "test_the_true_messages_are_accepted_whole": 2,
    },
    "inject/test_containers.py": {
        "test_the_probe_is_put_into_a_container_from_outside": 2,
        "test_a_root_with_a_python_of_its_own_and_without_gputui": 2,
    },
    "inject/test_kill.py": {
        "test_a_kill_of_the_tracer_leaves_the_program_running": 3,
    },
    "inject/test_loading.py": {
        "test_a_program_does_not_notice_that_a_probe_comes_and_goes": 4,
    },
    "probe/test_allocator.py": {
        "test_the_predicted_bytes_are_released": 2,
        "test_the_largest_predicted_requests_fit_and_are_exact_for_native_segments": 3,
    },
    "probe/test_exactness.py": {
        "test_the_predicted_bytes_are_released": 3,
    },
    "recording/test_bookmarks.py": {
        "test_a_jump_to_a_bookmark_shows_what_reading_all_before_shows": 2,
    },
    "reports/test_reports.py": {
        "test_the_first_lines_answer_the_report_and_the_remedy_works": 7,
    },
    "sources/test_nvml_every_error.py": {
        "test_an_error_affects_only_the_readings_of_its_call": 4,
        "test_an_unsupported_call_is_made_once": 4,
    },
    "sources/test_nvml_older_drivers.py": {
        "test_a_missing_function_affects_only_its_reading": 4,
    },
    "terminal/test_endings.py": {
        "test_a_quit_key_exits_with_status_0": 3,
    },
    "terminal/test_environments.py": {
        "test_it_draws_in_ascii_where_the_terminal_or_locale_requires_it": 4,
        "test_it_draws_when_standard_error_is_redirected_or_closed": 2,
    },
    "terminal/test_faults_on_screen.py": {
        "test_a_driver_error_is_shown_until_the_driver_works": 2,
        "test_a_lost_gpu_keeps_its_line_and_comes_back": 2,
        "test_machines_with_0_1_and_16_gpus_are_shown": 3,
    },
    "terminal/test_talkative_libraries.py": {
        "test_no_word_of_a_library_is_in_what_is_printed": 3,
    },
    "test_empty_proc.py": {
        "test_an_empty_proc_is_named": 3,
    },
    "trust/test_refused_calls.py": {
        "test_a_call_that_fails_in_the_probe_is_not_the_programs_fault": 4,
    },
    "ui/attach/test_actions.py": {
        "test_an_action_asks_for_confirmation_with_the_focus_on_cancel": 3,
    },
    "ui/attach/test_map_keys.py": {
        "test_an_empty_map_shows_the_reason": 2,
    },
    "ui/attach/test_screens.py": {
        "test_without_colours_and_in_ascii": 4,
    },
    "ui/attach/test_wire.py": {
        "test_the_same_moment_again_costs_nothing": 3,
    },
    "ui/test_crowd.py": {
        "test_keys_are_served_and_a_frame_draws_only_the_rows_on_screen": 2,
    },
    "ui/test_demonstration.py": {
        "test_d_goes_to_the_demonstration_and_back_from_every_screen": 2,
    },
    "ui/test_detail_screens.py": {
        "test_reasons_are_whole": 2,
    },
    "ui/test_monitor.py": {
        "test_quit_keys_end_the_program_on_every_screen": 5,
    },
    "ui/test_nvml_faults.py": {
        "test_a_failed_reading_shows_its_reason_and_leaves_the_other_device_alone": 3,
    },
    "ui/test_owners.py": {
        "test_a_filter_by_owner": 2,
    },
    "ui/test_screens.py": {
        "test_with_ascii_every_cell_is_ascii": 3,
    },
    "ui/test_signals.py": {
        "test_sends_the_signal_to_the_process_by_identity": 2,
        "test_asks_first_and_sends_nothing_without_confirmation": 2,
    },
    "ui/test_states.py": {
        "test_every_screen_fits_every_size": 3,
    },
    "ui/test_typed_ahead.py": {
        "test_a_packet_acts_as_its_keys_typed_slowly": 6,
        "test_random_packets_act_as_their_keys_typed_slowly": 3,
    },
    "ui/test_wire.py": {
        "test_the_bytes_of_a_whole_session_reproduce_the_screen": 2,
    },
    "whatif/test_ahead.py": {
        "test_the_peak_is_that_of_a_real_run": 3,
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
