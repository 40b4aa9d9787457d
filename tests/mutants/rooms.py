"""Rooms: the modules that keep a promise, and the tests that are run on mutants of them.

Code for other systems than Linux, and the store in PostgreSQL, are in no room.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]


class Room(NamedTuple):
    name: str
    modules: tuple[str, ...]
    """Patterns of paths."""
    tests: tuple[str, ...]
    """Patterns of test files. The recording finds out which of their tests reach a line. The nearest come first."""
    beside: tuple[str, ...] = ()
    """Tests that reach the room in other processes, where nothing is recorded. They run for each mutant, at the end."""

    def sources(self, root: Path = ROOT) -> list[str]:
        """Return the paths of the modules, without empty ones."""
        return list(_paths(self.modules, root))

    def test_files(self, root: Path = ROOT) -> list[str]:
        return list(_paths(self.tests, root))


def _paths(patterns: tuple[str, ...], root: Path) -> Iterator[str]:
    for pattern in patterns:
        yield from sorted(str(path.relative_to(root)) for path in root.glob(pattern))


ROOMS: Final = (
    Room(
        "store",
        ("engine/core/durable.py", "engine/log/store/*.py"),
        (
            "tests/engine/core/test_durable.py",
            "tests/engine/log/store/test_writer.py",
            "tests/engine/log/store/test_sqlite_files.py",
            "tests/engine/log/store/test_contract*.py",
            "tests/engine/log/store/test_sqlite_failures.py",
            "tests/engine/log/store/test_random_histories.py",
            "tests/engine/cli/test_damaged_stores.py",
            "tests/engine/session/test_registry.py",
        ),
    ),
    Room(
        "log",
        (
            "engine/log/event_log.py",
            "engine/log/branches.py",
            "engine/log/facts.py",
            "engine/log/file_history.py",
            "engine/log/past.py",
            "engine/log/rebuild_plan.py",
            "engine/log/statements.py",
            "engine/log/timeline.py",
            "engine/log/undo_steps.py",
        ),
        (
            "tests/engine/log/test_*.py",
            "tests/engine/log/events/*.py",
            "tests/engine/session/test_head.py",
            "tests/engine/session/test_named.py",
            "tests/engine/session/test_rewinding.py",
            "tests/engine/session/test_timeline_machine.py",
            "tests/engine/session/test_undo_machine.py",
            "tests/engine/session/session_json/test_*.py",
            "tests/engine/session/test_condensation.py",
        ),
    ),
    Room(
        "journal",
        ("engine/session/journal.py", "engine/session/tool_records.py", "acp_adapter/pump.py"),
        (
            "tests/engine/session/test_journal.py",
            "tests/acp_adapter/test_pump.py",
            "tests/engine/session/test_tool_records.py",
            "tests/engine/session/test_acts.py",
            "tests/engine/session/test_fetching_asked.py",
            "tests/engine/session/test_session.py",
            "tests/engine/session/test_replaying.py",
            "tests/engine/session/test_editing.py",
            "tests/acp_adapter/test_conversation.py",
        ),
    ),
    Room(
        "rewinding",
        (
            "engine/session/past/*.py",
            "engine/session/tools/landing.py",
            "engine/session/tools/restoring.py",
        ),
        (
            "tests/engine/session/test_rewinder.py",
            "tests/engine/session/test_head.py",
            "tests/engine/session/test_rewinding.py",
            "tests/engine/session/test_left_files.py",
            "tests/engine/session/test_merging.py",
            "tests/engine/session/test_editing.py",
            "tests/engine/session/test_replaying.py",
            "tests/engine/session/test_writing.py",
            "tests/engine/session/test_undo_machine.py",
            "tests/engine/session/test_own_writes.py",
            "tests/engine/session/test_tree_changes.py",
            "tests/engine/files/test_spellings.py",
            "tests/engine/session/test_forking.py",
            "tests/engine/session/tools/test_*.py",
            "tests/engine/cli/test_going_back.py",
            "tests/engine/cli/test_changes.py",
        ),
    ),
    Room(
        "sandbox",
        (
            "engine/runtime/sandbox/entering.py",
            "engine/runtime/sandbox/landlock.py",
            "engine/runtime/sandbox/mounts.py",
            "engine/runtime/sandbox/seccomp.py",
            "engine/session/confinement.py",
            "engine/files/safe_open.py",
        ),
        (
            "tests/engine/runtime/sandbox/test_seccomp.py",
            "tests/engine/session/test_confinement.py",
            "tests/engine/files/test_safe_open.py",
            "tests/engine/files/test_pins.py",
            "tests/engine/files/test_temporary_files.py",
            "tests/engine/session/tools/test_landing*.py",
            "tests/engine/session/tools/test_writing.py",
        ),
        (
            "tests/engine/runtime/sandbox/test_landlock.py",
            "tests/engine/runtime/sandbox/test_mounts.py",
            "tests/engine/runtime/sandbox/test_attacks.py",
            "tests/engine/runtime/test_worker_domain.py",
            "tests/engine/runtime/test_realms.py",
            "tests/engine/session/test_confinement.py",
        ),
    ),
    Room(
        "redaction",
        ("engine/log/redaction/*.py", "engine/log/secrets.py"),
        ("tests/engine/log/redaction/*.py", "tests/engine/log/test_secrets.py", "tests/engine/session/test_secrets.py"),
    ),
    Room(
        "view",
        ("engine/context/view/*.py",),
        ("tests/engine/context/view/test_*.py", "tests/docs/test_published_view.py"),
    ),
    Room(
        "framing",
        ("acp_adapter/jsonrpc/*.py", "engine/runtime/worker/channel.py", "engine/runtime/connection.py"),
        (
            "tests/acp_adapter/jsonrpc/test_*.py",
            "tests/engine/runtime/worker/test_channel.py",
            "tests/engine/runtime/test_connection.py",
            "tests/engine/runtime/test_worker_environment.py",
        ),
        (
            "tests/engine/runtime/test_contract_hiding.py",
            "tests/engine/runtime/test_contract_interrupts.py",
            "tests/engine/runtime/test_contract_checkpoints.py",
        ),
    ),
)
