"""Every promise of docs/promises.md has tests for it and for its limits."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS: dict[str, tuple[str, ...]] = {
    "Editors show only what is recorded": ("engine/session/test_journal", "e2e/test_crashes", "faults/test_sample"),
    "Sessions can be loaded again": (
        "engine/files/test_looks",
        "engine/runtime/test_contract_handles",
        "e2e/test_past_findings",
        "e2e/test_random_sessions",
        "engine/session/test_seen_again",
        "e2e/test_sessions",
        "acp_adapter/v1/test_updates_golden",
        "engine/runtime/test_worker_restore",
        "engine/session/test_replaying",
    ),
    "What commands change is recorded, shown and undone like the writes of tools": (
        "engine/session/test_tree_changes",
        "engine/session/test_undo_machine",
        "e2e/test_changed_files",
        "engine/session/working_tree/test_listing",
    ),
    "Sessions are reversible": (
        "engine/session/test_tree_changes",
        "engine/session/test_undo_machine",
        "engine/session/test_rewinder",
        "engine/session/test_rewinding",
        "engine/session/test_merging",
        "engine/session/tools/test_restoring",
        "engine/log/test_file_history",
        "faults/test_found",
    ),
    "Going back is instant, even past a statement that ran for an hour": (
        "engine/session/test_kept_values",
        "engine/runtime/test_contract_checkpoints",
        "engine/runtime/test_checkpoint_memory",
        "engine/session/test_timeline_machine",
    ),
    "You can edit an earlier statement": ("engine/session/test_editing",),
    "A rebuild has no outside effects": (
        "e2e/test_rebuild_effects",
        "engine/runtime/test_contract_restore",
        "e2e/test_sessions",
    ),
    "Values that a re-run cannot reproduce come from copies": (
        "e2e/test_past_findings",
        "e2e/test_past_bad_input",
        "engine/session/test_kept_values",
        "engine/session/test_kept_values",
        "engine/runtime/test_contract_keeping",
    ),
    "The sandbox enforces permissions": (
        "e2e/test_mcp_sandbox",
        "e2e/test_coding_task",
        "engine/session/test_confinement",
    ),
    "A statement cannot take the session down": (
        "e2e/test_hostile_statements",
        "engine/runtime/test_worker_deaths",
        "e2e/test_sessions",
        "engine/runtime/test_worker_deaths",
        "engine/runtime/test_ending",
    ),
    "You can cancel every statement": ("e2e/test_cancel_races", "e2e/test_hostile_statements"),
    "No process is left behind": ("e2e/test_sessions", "e2e/test_left_processes", "engine/cli/test_doctor"),
    "Statements cannot reach keys": ("e2e/test_process_secrets",),
    "Keys stay out of everything that Rewindow shows, sends to models or stores": (
        "e2e/test_ways_out",
        "engine/cli/test_secrets",
        "engine/log/test_secrets",
    ),
    "Secrets are not kept for rebuilds, and the report names what is missing": (
        "engine/session/test_seen_again",
        "engine/session/test_kept_values",
        "engine/session/test_secrets",
    ),
    "A question shows every line that would run": (
        "acp_adapter/v1/test_editors",
        "acp_adapter/sessions/test_permissions",
    ),
    "A model statement asks before it runs": ("acp_adapter/sessions/test_permissions",),
    "Each tool action is shown in its own form, and asked about once": (
        "e2e/test_coding_task",
        "acp_adapter/sessions/test_questions",
    ),
    '"Always" covers only what it names': ("engine/session/test_scopes",),
    "Nothing is written without your approval, or over a file that changed since it was read": (
        "e2e/test_asking_about_acts",
        "engine/session/test_writing",
        "engine/session/tools/test_landing",
    ),
    "Tool writes are atomic": (
        "faults/test_sample",
        "e2e/test_killed_writes",
        "engine/session/tools/test_landing_on_disks",
        "engine/session/tools/test_landing",
        "engine/runtime/test_contract_writes",
    ),
    "Writes by a statement's own code are recorded and shown": (
        "engine/runtime/test_contract_writes",
        "engine/session/test_own_writes",
        "e2e/test_own_writes",
    ),
    "The record of a statement names every variable that it changed": (
        "engine/runtime/worker/test_namespace",
        "engine/runtime/worker/test_namespace",
        "engine/runtime/worker/test_unknown",
    ),
    "The disk space of a session's past is shown and bounded": (
        "engine/cli/test_cli",
        "engine/cli/test_doctor",
        "engine/session/test_kept_values",
    ),
    "A command ends with every process that it started": (
        "engine/runtime/test_worker_commands",
        "e2e/test_left_processes",
        "e2e/test_bash",
    ),
    "`grep` and `find` search the files that git would": (
        "engine/files/search/test_ignore_files",
        "engine/session/tools/test_searching",
    ),
    "Views, groups and the last part of a prompt never exceed their budgets": (
        "engine/files/test_levels",
        "engine/files/test_changes_level",
        "engine/files/test_group_summary",
        "engine/context/tail/test_sections",
        "acceptance/test_views",
    ),
    "Files of up to 1 GB can be viewed a window at a time": (
        "engine/files/test_paged_views",
        "engine/session/test_large_files",
    ),
    "A view can follow a symbol": ("engine/files/test_document",),
    "Outlining is safe for any text": ("engine/runtime/test_outlines",),
    "A group always summarises its current members": ("acceptance/test_groups", "engine/files/test_globs"),
    "Views and groups change only in statements and at ticks": (
        "engine/files/test_ticks",
        "acceptance/test_ticks",
        "engine/context/tail/test_feed",
        "e2e/test_reading",
    ),
    "You can print exactly what each model call was sent": ("engine/session/test_sent", "e2e/test_projections"),
    "The editor's text takes precedence over the disk": ("e2e/test_mentions", "acp_adapter/sessions/test_mentions"),
    "Views show unsaved text, and no tool overwrites it": (
        "acp_adapter/sessions/test_buffers",
        "engine/files/test_buffers",
    ),
    "Calls of MCP tools are treated like commands": (
        "engine/session/test_servers",
        "engine/session/tools/test_mcp_listing",
        "e2e/test_mcp_servers",
        "engine/log/test_secrets",
    ),
    "Only regular files are opened": (
        "engine/files/test_safe_open",
        "engine/session/tools/test_landing",
        "engine/session/tools/test_searching",
    ),
    "A session can move to another directory": ("acp_adapter/sessions/test_moves",),
    "A damaged store hides no other session": ("engine/cli/test_damaged_stores", "e2e/test_hostile_sessions"),
    "Store failures are reported at once": ("e2e/test_stores_under_way",),
    "Several machines can share the sessions": (
        "engine/log/store/test_postgresql",
        "engine/log/store/test_postgresql_faults",
        "engine/log/store/test_random_histories",
        "engine/session/test_remote_store",
        "e2e/test_postgresql",
        "e2e/test_random_sessions",
    ),
    "A conversation may outgrow its budget": ("e2e/test_condensation", "engine/session/test_condensation"),
    "Models that cannot call tools write statements in their text": (
        "e2e/test_provider",
        "engine/session/test_without_tools",
        "engine/context/models/test_written_replies",
    ),
    "No output can control your terminal": ("e2e/test_run", "engine/cli/terminal/test_transcript"),
    "Everything but prompts works without a usable model": ("e2e/test_model_setup", "acp_adapter/sessions/test_setup"),
    "The first model reply does not wait for its library": ("e2e/test_provider", "engine/context/models/test_library"),
    "The cost of a turn does not grow with the session": (
        "engine/context/view/test_enforcement",
        "engine/session/test_projector",
    ),
    "HTTP access needs the token": ("mcp_tools/test_http", "mcp_tools/test_access"),
    "`rewindow-mcp` conforms to MCP": (
        "e2e/test_mcp_conformance",
        "mcp_tools/test_tasks",
        "e2e/test_mcp_clients",
        "hosts/hosts",
    ),
    "Every `rewindow-conformance` verdict quotes the specification": (
        "conformance/test_registry",
        "conformance/test_defects",
    ),
    "An editor shows the same in both versions of the protocol": (
        "e2e/test_both_versions",
        "acp_adapter/v2/test_sessions",
    ),
    "Pictures are part of the session": ("e2e/test_pictures", "engine/session/test_pictures"),
    "A question to you reaches you once": (
        "e2e/test_asking",
        "engine/session/test_asking",
        "engine/session/test_server_forms",
        "engine/cli/terminal/test_forms",
        "mcp_tools/test_asking",
    ),
    "`fetch` reaches only public addresses, after you allowed the site": (
        "e2e/test_fetching",
        "engine/session/test_fetching",
        "engine/session/test_fetching_asked",
        "engine/session/tools/test_fetch",
    ),
    "Your project's packages are importable": ("engine/runtime/test_worker_environment", "engine/session/test_homes"),
    "A lost connection loses nothing": ("acp_adapter/test_sharing", "e2e/test_remote"),
    "A lost workspace is cloned again, with what statements wrote": (
        "engine/session/test_clones",
        "e2e/test_git_workspaces",
        "e2e/test_cluster_nodes",
    ),
    "A user of a server reaches nothing of another user": ("e2e/test_remote_users",),
}
"""The modules of tests, below `tests`, that prove a promise and its limits."""


def promised() -> list[str]:
    """The promises of the page: its headings below the headings of its parts."""
    return re.findall(r"^### (.+)$", source("docs/promises.md"), re.MULTILINE)


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_promise_has_tests() -> None:
    assert sorted(promised()) == sorted(TESTS)


@pytest.mark.parametrize("promise", TESTS)
def test_the_tests_of_a_promise_exist(promise: str) -> None:
    for module in TESTS[promise]:
        assert "def test_" in source(f"tests/{module}.py")
