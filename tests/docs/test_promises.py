"""Every promise of docs/promises.md has tests for it and for its limits, and the README promises nothing else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS: dict[str, tuple[str, ...]] = {
    "Editors show only what is on disk.": (
        "tests/engine/session/test_journal.py::test_events_wait_for_their_commit_and_signals_for_the_events_before_them",
        "tests/e2e/test_crashes.py::test_a_crash_at_any_instant_loses_nothing_that_was_shown",
    ),
    "Sessions can be loaded again.": (
        "tests/engine/files/test_looks.py::test_contents_beyond_the_limit_are_recorded_but_not_sent",
        "tests/e2e/test_past_findings.py::test_rebuilt_view_is_unchanged_until_the_next_tick",
        "tests/e2e/test_past_kills.py::test_few_sessions_are_unchanged_after_kills",
        "tests/engine/session/test_seen_again.py::"
        "test_a_paused_view_shows_what_it_showed_and_a_running_one_tells_what_differs",
        "tests/e2e/test_sessions.py::test_load_after_a_kill_shows_everything_and_restores_variables",
        "tests/acp_adapter/v1/test_updates_golden.py::test_load_at_any_moment",
        "tests/engine/runtime/test_worker_restore.py::test_every_fatal_execution_is_left_out",
        "tests/engine/session/test_omitting.py::test_a_statement_is_left_out_and_taken_in_again",
    ),
    "Sessions are reversible.": (
        "tests/engine/session/test_rewinder.py::test_conversation_namespace_and_files_go_back_together_and_over_again",
        "tests/engine/session/test_rewinder.py::"
        "test_a_kill_anywhere_in_a_rewind_is_finished_when_the_session_is_opened",
        "tests/engine/session/test_rewinder.py::test_a_cancel_while_files_go_back_leaves_all_as_it_was",
        "tests/engine/session/test_rewinding.py::test_whoever_opens_the_session_after_a_kill_finishes_it",
        "tests/engine/session/test_rewinding.py::test_files_that_cannot_go_back_are_named_and_the_others_do",
        "tests/engine/session/test_rewinding.py::"
        "test_a_file_with_unsaved_changes_in_the_editor_is_left_and_one_it_has_late_is_not",
        "tests/engine/session/tools/test_restoring.py::test_a_change_that_comes_between_the_look_and_the_act_is_kept",
        "tests/engine/session/tools/test_restoring.py::test_what_is_no_file_of_the_workspace_is_left_and_named",
        "tests/engine/log/test_file_history.py::test_contents_that_were_not_kept_are_named_with_the_reason",
    ),
    "You can edit an earlier statement.": (
        "tests/engine/session/test_editing.py::"
        "test_what_follows_an_edited_statement_runs_on_its_own_branch_with_recorded_answers",
        "tests/engine/session/test_editing.py::test_the_same_question_gets_the_recorded_answer_once",
        "tests/engine/session/test_editing.py::test_an_edit_leaves_a_conversation_without_anomalies",
        "tests/engine/session/test_editing.py::test_a_cancelled_edit_goes_back_to_where_it_was",
        "tests/engine/session/test_editing.py::test_a_live_edit_acts_again",
    ),
    "A rebuild has no outside effects.": (
        "tests/e2e/test_past_acts.py::test_rebuild_never_repeats_an_act",
        "tests/e2e/test_past_acts.py::test_a_rebuild_says_what_it_kept_from_acting",
        "tests/e2e/test_rebuild_effects.py::test_reload_repeats_no_effect_and_names_each_refused_one",
        "tests/engine/runtime/test_contract_restore.py::test_work_started_by_reruns_stays_guarded",
        "tests/engine/runtime/test_contract_restore.py::test_the_error_names_what_to_make_anew",
        "tests/e2e/test_sessions.py::test_plan_mode_refuses_what_changes_files_and_runs_the_rest",
    ),
    "Values that a re-run cannot reproduce come from copies.": (
        "tests/e2e/test_past_findings.py::test_names_bound_with_a_write_or_process_are_restored",
        "tests/e2e/test_past_bad_input.py::test_unsaveable_value_is_named_and_others_are_restored",
        "tests/e2e/test_past_planted.py::test_rerun_reports_each_difference_once_and_nothing_else",
        "tests/engine/session/test_rebuilt_values.py::test_what_came_out_differently_is_said_of_each_statement",
        "tests/engine/session/test_rebuilt_values.py::"
        "test_the_model_is_told_of_a_rebuild_once_and_whoever_looks_takes_nothing",
        "tests/engine/session/test_kept_values.py::"
        "test_a_name_of_a_statement_that_cannot_run_again_is_there_after_a_load",
        "tests/engine/runtime/test_contract_keeping.py::test_what_a_stopped_statement_left_is_there_again",
        "tests/engine/runtime/test_contract_keeping.py::test_names_that_cannot_be_kept_say_why",
        "tests/engine/runtime/test_contract_keeping.py::test_large_values_are_kept_only_on_request",
    ),
    "The sandbox enforces permissions.": (
        "tests/e2e/test_mcp_sandbox.py::test_client_python_writes_only_in_roots_and_scratch",
        "tests/e2e/test_coding_task.py::test_sandboxed_reads_ask_nothing_and_each_act_asks_once",
        "tests/engine/session/test_confinement.py::"
        "test_more_rights_take_a_fresh_worker_and_the_user_s_word_for_what_ran_with_fewer",
    ),
    "A statement cannot take the session down.": (
        "tests/e2e/test_hostile_statements.py::test_fatal_statements_are_recorded_and_names_are_rebuilt",
        "tests/engine/runtime/test_worker_deaths.py::test_a_statement_whose_processes_hold_too_much_memory_is_ended",
        "tests/e2e/test_session.py::test_a_flood_of_output_is_bounded_and_counted",
        "tests/engine/runtime/test_worker_deaths.py::test_limits_are_in_force_and_nothing_is_inherited",
        "tests/engine/runtime/test_ending.py::test_fork_bomb_ends_with_its_statement",
        "tests/engine/runtime/test_ending.py::test_tree_of_too_many_processes_is_found",
    ),
    "Cancelling works": (
        "tests/e2e/test_cancel_races.py::test_cancelled_c_loop_kills_the_worker_and_names_are_rebuilt",
        "tests/e2e/test_cancel_races.py::test_cancel_of_a_statement_that_refuses_to_be_interrupted",
        "tests/e2e/test_hostile_statements.py::test_cancelled_statements_take_the_processes_they_wait_for_with_them",
    ),
    "No process is left behind": (
        "tests/e2e/test_session.py::test_no_process_is_left_however_the_agent_ends",
        "tests/e2e/test_left_processes.py::test_what_a_killed_agent_leaves_ends_with_the_next_command",
        "tests/engine/cli/test_doctor.py::test_what_a_killed_agent_left_is_listed",
    ),
    "Statements cannot reach keys.": (
        "tests/e2e/test_process_secrets.py::test_no_statement_or_program_finds_keys_in_processes",
        "tests/e2e/test_process_secrets.py::test_with_sudo_a_statement_reads_only_the_agent_parent",
    ),
    "Keys stay out of everything that Rewindow shows, sends to models or stores": (
        "tests/e2e/test_secrets.py::test_nothing_of_a_secret_leaves_whatever_statements_do_with_it",
        "tests/e2e/test_secrets.py::test_secret_of_a_model_is_masked_and_its_statement_runs",
        "tests/engine/cli/test_secrets.py::test_no_command_shows_a_secret",
        "tests/engine/log/test_secrets.py::test_too_short_values_are_named_but_not_removed",
    ),
    "Secrets are not kept for rebuilds, and the report names what is missing.": (
        "tests/engine/session/test_seen_again.py::"
        "test_a_content_that_holds_a_secret_is_not_kept_and_seen_again_only_where_it_is_still_there",
        "tests/engine/session/test_kept_values.py::test_a_group_that_holds_a_secret_is_not_stored_but_named",
        "tests/engine/session/test_secrets.py::"
        "test_an_answer_with_a_secret_is_not_kept_and_stops_the_statement_that_needs_it",
        "tests/engine/session/test_secrets.py::"
        "test_a_statement_with_a_secret_in_it_does_not_run_again_as_something_else",
    ),
    "A question shows every line that would run.": (
        "tests/acp_adapter/v1/test_editors.py::test_golden_statement_questions",
        "tests/acp_adapter/v1/test_editors.py::test_title_is_complete_or_counts_the_rest",
        "tests/acp_adapter/sessions/test_permissions.py::test_dismissed_question_cancels_the_turn",
        "tests/acp_adapter/sessions/test_permissions.py::test_too_long_statement_is_refused_without_question",
    ),
    "A model statement asks before it runs": (
        "tests/acp_adapter/sessions/test_permissions.py::test_unclear_answers_are_rejections",
        "tests/acp_adapter/sessions/test_permissions.py::test_auto_mode_does_not_ask",
    ),
    "Each tool action is shown in its own form, and asked about once": (
        "tests/e2e/test_coding_task.py::test_acpx_shows_a_coding_task_and_asks_by_mode",
        "tests/acp_adapter/sessions/test_questions.py::test_one_question_covers_a_statement",
        "tests/acp_adapter/sessions/test_questions.py::test_asking_about_acts_shows_each_diff",
        "tests/e2e/test_coding_task.py::test_load_shows_recorded_acts_and_repeats_none",
    ),
    '"Always" covers only what it names': (
        "tests/engine/session/test_scopes.py::test_an_answer_covers_what_it_names_and_no_more",
        "tests/engine/session/test_scopes.py::test_what_a_shell_would_read_otherwise_is_covered_by_the_same_text_alone",
    ),
    "Nothing is written without your approval, or over a file that changed since it was read.": (
        "tests/e2e/test_asking_about_acts.py::test_no_write_without_approval_or_over_a_changed_file",
        "tests/engine/session/test_writing.py::test_a_file_changed_since_it_was_read_written_or_viewed_is_left_alone",
        "tests/engine/session/tools/test_landing.py::test_a_file_that_somebody_saves_during_the_act_is_left_alone",
    ),
    "Tool writes are atomic": (
        "tests/e2e/test_killed_writes.py::test_writes_killed_at_100_moments_leave_only_whole_files",
        "tests/engine/session/tools/test_landing_on_disks.py::"
        "test_a_disk_that_is_full_in_the_middle_of_a_write_keeps_what_was_there",
        "tests/engine/session/tools/test_landing.py::test_a_replaced_file_keeps_its_mode_owner_and_attributes",
        "tests/engine/runtime/test_contract_writes.py::test_write_lands_before_the_next_line",
    ),
    "Writes by a statement's own code are recorded and shown": (
        "tests/engine/runtime/test_contract_writes.py::test_each_way_to_write_is_noticed_with_earlier_content",
        "tests/engine/session/test_own_writes.py::"
        "test_a_file_that_a_statement_writes_by_itself_is_recorded_with_both_contents",
        "tests/engine/session/test_own_writes.py::test_what_was_there_outlives_a_worker_that_is_killed_at_once",
        "tests/e2e/test_own_writes.py::test_editor_shows_each_file_diff_live_and_after_load",
        "tests/e2e/test_own_writes.py::test_load_after_a_kill_shows_written_files",
        "tests/engine/session/test_own_writes.py::test_a_file_that_is_too_large_is_named_without_its_content",
        "tests/engine/session/test_own_writes.py::"
        "test_what_happens_between_statements_and_in_forked_processes_is_nobodys",
    ),
    "The record of a statement names every variable that it changed.": (
        "tests/engine/runtime/worker/test_namespace.py::test_a_change_shows_in_every_name_that_shares_the_part",
        "tests/engine/runtime/worker/test_namespace.py::test_every_changed_name_is_shown_and_no_other",
        "tests/engine/runtime/worker/test_unknown.py::test_incomparable_value_is_unknown_where_it_is_used",
    ),
    "The disk space of a session's past is shown and bounded.": (
        "tests/engine/cli/test_cli.py::test_sessions_are_listed_with_what_their_past_takes",
        "tests/engine/cli/test_doctor.py::test_what_the_past_takes_is_counted_once_for_all_sessions",
        "tests/engine/session/test_past_bound.py::test_the_oldest_values_go_and_the_log_says_so",
        "tests/engine/session/test_past_bound.py::test_what_is_no_value_stays_however_much_it_is",
    ),
    "A command ends with every process that it started": (
        "tests/engine/runtime/test_worker_commands.py::test_daemons_end_with_their_program_however_it_ends",
        "tests/e2e/test_left_processes.py::test_next_command_ends_leftovers_of_a_kill_during_bash",
        "tests/e2e/test_bash.py::test_command_runs_no_program_that_a_statement_planted",
    ),
    "`grep` and `find` search the files that git would": (
        "tests/engine/files/search/test_ignore_files.py::test_ripgrep_and_git_list_the_same_files",
        "tests/engine/session/tools/test_searching.py::test_a_search_that_takes_too_long_is_ended",
        "tests/engine/files/search/test_ignore_files.py::test_links_pipes_and_version_control_are_not_entered",
    ),
    "Views, groups and the tail of a prompt never exceed their budgets.": (
        "tests/engine/files/test_levels.py::test_every_render_is_exact_pure_and_within_its_budget",
        "tests/engine/files/test_diff_level.py::test_a_difference_never_passes_its_budget_and_is_exact",
        "tests/engine/files/test_group_summary.py::test_a_summary_is_exact_and_within_its_budget",
        "tests/engine/context/tail/test_sections.py::test_a_tail_is_exact_and_within_its_budget",
        "tests/acceptance/test_views.py::test_model_makes_and_adjusts_a_view_and_sees_updates",
    ),
    "Files of up to 1 GB can be viewed a window at a time": (
        "tests/engine/files/test_paged_views.py::test_a_window_equals_that_of_a_text_in_memory",
        "tests/engine/files/test_paged_views.py::test_a_shown_page_stays_and_others_are_lost",
        "tests/engine/files/test_paged_views.py::test_what_is_appended_is_told_with_its_lines",
        "tests/engine/files/test_paged_views.py::test_levels_that_need_the_whole_text_say_alternatives",
        "tests/engine/files/test_paged_views.py::test_binary_empty_and_larger_files_are_one_line",
        "tests/engine/session/test_large_files.py::"
        "test_a_load_shows_the_pages_that_were_shown_and_little_of_the_file_is_kept",
    ),
    "A view can follow a symbol": (
        "tests/engine/files/test_document.py::test_a_view_at_a_symbol_follows_it",
        "tests/engine/files/test_document.py::test_a_view_whose_symbol_is_gone_stays_near",
    ),
    "Outlining is safe for any text.": (
        "tests/engine/runtime/test_outlines.py::test_deadly_text_gets_another_tier_and_a_new_parser",
        "tests/engine/runtime/test_outlines.py::test_brackets_without_end_are_outlined_in_bounded_time",
    ),
    "A group always summarises its current members": (
        "tests/acceptance/test_groups.py::test_prompt_shows_groups_with_summaries_of_their_members",
        "tests/engine/files/test_globs.py::test_a_glob_shows_matching_files_that_are_not_ignored",
        "tests/engine/files/test_globs.py::test_files_come_change_and_go_at_ticks_alone",
        "tests/acceptance/test_groups.py::test_many_files_are_listed_until_their_overview_is_prepared",
    ),
    "Views and groups change only in statements and at ticks.": (
        "tests/engine/runtime/worker/test_board.py::test_a_thread_that_tries_to_change_a_node_is_refused",
        "tests/acceptance/test_ticks.py::test_running_views_follow_files_only_at_ticks",
        "tests/engine/context/tail/test_feed.py::test_each_item_reaches_exactly_one_answered_call",
        "tests/e2e/test_reading.py::test_a_change_that_a_failed_call_carried_is_told_again",
        "tests/e2e/test_reading.py::test_unread_change_is_reported_after_a_reload",
    ),
    "Every model call can be shown again exactly": (
        "tests/engine/session/test_sent.py::test_a_prompt_is_on_disk_while_the_model_has_not_answered_yet",
        "tests/e2e/test_projections.py::test_call_interrupted_by_a_kill_can_be_shown",
        "tests/e2e/test_projections.py::test_what_a_server_received_is_made_again_from_the_log",
        "tests/engine/session/test_sent.py::test_every_prompt_is_made_again_from_the_log_also_after_condensations",
    ),
    "The editor's text takes precedence over the disk.": (
        "tests/e2e/test_mentions.py::test_mention_shows_unsaved_text_and_loads_unchanged",
        "tests/acp_adapter/sessions/test_mentions.py::test_lines_in_a_link_set_the_position",
        "tests/acp_adapter/sessions/test_mentions.py::test_mention_in_a_sentence",
    ),
    "Views show unsaved text, and no tool overwrites it": (
        "tests/acp_adapter/sessions/test_buffers.py::test_a_view_shows_the_unsaved_text_and_says_so",
        "tests/acp_adapter/sessions/test_buffers.py::test_views_follow_documents_by_version_without_asking",
        "tests/acp_adapter/sessions/test_buffers.py::test_an_edit_of_unsaved_text_goes_through_the_editor",
        "tests/acp_adapter/sessions/test_buffers.py::test_unsaved_changes_are_not_overwritten",
        "tests/acp_adapter/sessions/test_buffers.py::test_prompt_refreshes_running_views_once",
        "tests/engine/files/test_buffers.py::test_the_editor_is_not_asked_for_what_it_cannot_hold",
    ),
    "Calls of MCP tools are treated like commands": (
        "tests/engine/session/test_servers.py::test_a_call_of_a_model_s_is_asked_for_whatever_the_server_says_of_it",
        "tests/engine/session/test_servers.py::test_a_rebuild_and_a_load_call_nobody",
        "tests/engine/session/test_servers.py::test_a_server_that_is_dead_is_told_once_and_fails_nothing",
        "tests/engine/session/test_servers.py::test_a_flood_holds_nobody_up",
        "tests/engine/session/tools/test_mcp_listing.py::test_help_has_our_words_first_and_says_whose_the_others_are",
        "tests/e2e/test_mcp_servers.py::test_no_server_call_is_repeated_after_a_kill",
        "tests/e2e/test_mcp_servers.py::test_no_server_outlives_the_agent_however_that_ends",
        "tests/e2e/test_mcp_servers.py::test_server_secrets_are_in_no_file_or_message",
        "tests/engine/log/test_secrets.py::test_what_is_plainly_no_secret_stays",
    ),
    "Only regular files are opened": (
        "tests/engine/files/test_safe_open.py::test_a_swapped_link_leads_to_nothing_outside",
        "tests/engine/files/test_safe_open.py::test_special_files_are_named_and_do_not_block",
        "tests/engine/files/test_safe_open.py::test_a_hard_link_is_where_it_is",
        "tests/engine/session/tools/test_landing.py::test_nothing_lands_outside_while_links_are_swapped",
        "tests/engine/session/tools/test_searching.py::test_a_link_that_is_swapped_in_before_the_search_begins_leads_nowhere",
    ),
    "A session can move to another directory.": (
        "tests/acp_adapter/sessions/test_moves.py::test_load_in_another_directory_keeps_variables",
        "tests/e2e/test_moves.py::test_session_of_a_missing_folder_continues_where_loaded",
    ),
    "A damaged store hides no other session.": (
        "tests/engine/cli/test_damaged_stores.py::test_a_damaged_store_is_said_in_sentences_and_hides_no_other_session",
        "tests/e2e/test_hostile_sessions.py::test_hostile_file_is_refused_or_becomes_a_working_session",
    ),
    "Store failures are reported at once": (
        "tests/e2e/test_stores_under_way.py::test_next_prompt_notices_a_removed_store",
        "tests/e2e/test_stores_under_way.py::test_locked_store_is_written_once_unlocked",
        "tests/e2e/test_stores_under_way.py::test_full_disk_keeps_sessions_readable_and_new_ones_in_memory",
        "tests/e2e/test_stores_under_way.py::test_read_only_store_can_be_read_and_loaded",
    ),
    "A conversation may outgrow its budget.": (
        "tests/e2e/test_condensation.py::test_run_over_its_budget_is_condensed_and_completes",
        "tests/engine/session/test_condensation.py::"
        "test_a_run_in_one_thinking_loop_cannot_be_cut_so_its_outputs_are_shortened",
    ),
    "Models that cannot call tools write statements in their text": (
        "tests/e2e/test_provider.py::test_model_without_tools_writes_statements_and_reads_results",
        "tests/engine/session/test_without_tools.py::"
        "test_calls_of_before_are_text_afterwards_and_calls_again_when_it_is_set_back",
        "tests/engine/context/models/test_written_replies.py::test_all_else_is_shown_as_it_is",
    ),
    "No output can control your terminal": (
        "tests/e2e/test_run.py::test_nothing_that_is_printed_read_or_said_controls_the_terminal",
        "tests/e2e/test_run.py::test_question_shows_the_whole_statement_and_accepts_each_key",
        "tests/engine/cli/terminal/test_transcript.py::test_nothing_that_is_shown_holds_a_control_character",
    ),
    "Everything but prompts works without a usable model": (
        "tests/e2e/test_model_setup.py::test_missing_key_and_unknown_provider_show_no_traceback",
        "tests/acp_adapter/sessions/test_setup.py::test_unusable_model_only_fails_prompts",
    ),
    "The first model reply does not wait for its library": (
        "tests/e2e/test_provider.py::test_provider_library_loads_before_the_first_reply",
        "tests/engine/context/models/test_library.py::test_no_step_begins_while_a_session_works",
    ),
    "The cost of a turn does not grow with the session.": (
        "tests/engine/context/view/test_enforcement.py::test_an_orderly_view_is_read_without_enforcement",
        "tests/engine/session/test_projector.py::test_a_projection_of_a_grown_view_looks_at_what_is_new_alone",
    ),
    "HTTP access needs the token": (
        "tests/mcp_tools/test_http.py::test_token_is_required",
        "tests/mcp_tools/test_http.py::test_foreign_host_and_origin_are_refused",
        "tests/mcp_tools/test_access.py::test_token_is_created_once_and_private",
        "tests/mcp_tools/test_access.py::test_token_readable_by_others_is_refused",
        "tests/mcp_tools/test_http.py::test_clients_share_handles_only_within_a_session",
        "tests/mcp_tools/test_http.py::test_subscriptions_are_separate_by_session",
    ),
    "`rewindow-mcp` conforms to MCP": (
        "tests/e2e/test_mcp_conformance.py::test_every_scenario_of_a_version_passes",
        "tests/e2e/test_mcp_conformance.py::test_every_scenario_there_is_passes",
        "tests/mcp_tools/test_tasks.py::test_tasks_end_with_the_server",
        "tests/e2e/test_mcp_conformance.py::test_without_fixtures_fails_what_needs_them_alone",
        "tests/e2e/test_mcp_clients.py::test_every_client_is_answered_the_same",
        "tests/e2e/test_mcp_clients.py::test_the_inspector_is_answered_the_same",
        "tests/hosts/hosts.py::test_the_model_is_sent_our_replies_character_for_character",
    ),
    "Every `rewindow-conformance` verdict quotes the specification": (
        "tests/conformance/test_registry.py::test_every_quote_is_at_its_source",
        "tests/conformance/test_registry.py::test_requirements_and_defects_match",
        "tests/conformance/test_defects.py::test_defect_fails_only_its_requirement_in_its_scenario",
    ),
    "Your project's packages are importable": (
        "tests/engine/runtime/test_worker_environment.py::test_a_projects_own_engine_package_is_what_statements_import",
        "tests/engine/session/test_project.py::test_another_minor_version_is_not_used_and_said_in_one_sentence",
    ),
}


def promised(page: str) -> list[str]:
    """The promises of a page: what its table rows print in bold first."""
    return re.findall(r"^\| \*\*(.+?)\*\*", source(page), re.MULTILINE)


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_promise_has_tests() -> None:
    assert sorted(promised("docs/promises.md")) == sorted(TESTS)


def test_the_readme_promises_nothing_else() -> None:
    assert set(promised("README.md")) < set(TESTS)


@pytest.mark.parametrize("promise", TESTS)
def test_the_tests_of_a_promise_exist(promise: str) -> None:
    for test in TESTS[promise]:
        path, _, name = test.partition("::")
        assert f"def {name}(" in source(path)
