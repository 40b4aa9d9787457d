"""`fuzz` finds every kind of death that the defects of the suites have, at once, whatever the seed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.fuzzing.campaign import Campaign
from conformance.fuzzing.targets import TARGETS
from conformance.options import Options
from tests.conformance import test_acp_defects, test_mcp_defects
from tests.conformance.suite_runs import PEERS, defect, in_memory, suite, transcript_of

OPTIONS = Options(cwd="/project", timeout=1, scenario_timeout=1e6)
SECONDS = 15
DEATHS = {
    "acp": ("FRAME-008 FRAME-009 FRAME-011 FRAME-012 FRAME-015 FRAME-016 RPC-014 RPC-018", "ACP1-A-"),
    "mcp": (
        "FRAME-008 FRAME-009 FRAME-011 FRAME-012 FRAME-015 FRAME-016 FRAME-017 RPC-010 INIT-008 CANCEL-003 CANCEL-004 "
        "SUB-010",
        "MCP-S-",
    ),
}
"""The defects that end their program while it is wanted, by suite."""
EACH = [(of, prefix + name) for of, (names, prefix) in DEATHS.items() for name in names.split()]


@pytest.mark.parametrize(("of", "name"), EACH)
def test_each_kind_of_death_is_found_in_its_time(of: str, name: str) -> None:
    outcome = Campaign(TARGETS[of](), in_memory(defect(name, of), of), OPTIONS, 1, SECONDS).run()
    assert outcome.found is not None
    assert outcome.found.finding is not None
    assert outcome.found.finding.kind == "the program ended"
    assert outcome.seconds < SECONDS
    assert outcome.starts <= len(TARGETS[of]()) + 1


@pytest.mark.slow
def test_the_table_has_every_kind_of_death() -> None:
    """A defect that ends its program belongs into it."""
    shown = {"acp": (test_acp_defects.SHOWN_BY, "tool-turn"), "mcp": (test_mcp_defects.SHOWN_BY, "opening")}
    found: list[tuple[str, str]] = []
    for of, (shown_by, otherwise) in shown.items():
        for row in suite(of).requirements:
            scenario = row.scenario or shown_by.get(row.id, otherwise)
            entries = transcript_of(scenario, defect(row.id, of), of).entries
            was_ended = any(entry.label == "input-closed" for entry in entries)
            if not was_ended and any(entry.label == "ended" and entry.value["by"] == "by itself" for entry in entries):
                found.append((of, row.id))
    assert set(found) == set(EACH)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[]", "42", '"x"', "null"])
def test_the_command_finds_an_agent_that_dies_of_a_line(text: str, tmp_path: Path) -> None:
    """As people start it, within fifteen seconds."""
    program = tmp_path / "agent.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(PEERS)!r})\n"
        "import acp_agent, changes, stdio_world\n"
        f"stdio_world.run(changes.dies(acp_agent.Agent, lambda line: line == {text.encode()!r}))\n"
    )
    tool = Path(sys.executable).with_name("rewindow-conformance")
    command = [tool, "fuzz", "acp", "--seconds", SECONDS, "--keep", tmp_path, "--", sys.executable, program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout
    assert f"line {text}\n" in done.stdout
    spent = re.search(r"in \d+ runs, (\d+) s", done.stdout)
    assert spent
    assert int(spent[1]) <= SECONDS
