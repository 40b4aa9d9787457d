"""Runs suites in memory, on conforming peers and on their defects. SUBJECTS has a row for each suite."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from conformance.driver import Options
from conformance.judging import Requirement
from conformance.peers.memory import MemoryPeer, World
from conformance.reports import terminal
from conformance.runner import Run, Start, run_scenario
from conformance.suite import Suite
from conformance.suites.registry import SUITES
from conformance.suites.vectors import REQUIREMENTS
from conformance.traffic import Traffic
from conformance.transcript import Transcript

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))  # the peers are standalone programs without a package

import acp2_agent  # noqa: E402
import acp2_defects  # noqa: E402
import acp_agent  # noqa: E402
import acp_client  # noqa: E402
import acp_client_defects  # noqa: E402
import acp_defects  # noqa: E402
import commands  # noqa: E402
import mcp_defects  # noqa: E402
import mcp_server  # noqa: E402
import remote_endpoint  # noqa: E402
import stdio_world  # noqa: E402
import vectors_adapter  # noqa: E402

KEEP: str = stdio_world.KEEP
"""The variable with the directory in which peer processes save conversations."""
OPTIONS = Options(
    prompt="hello",
    slow_prompt="count",
    tool_prompt="tool",
    allow_always=True,
    cwd="/project",
    auth="login",
    allow_logout=True,
    long_line=2_000_000,
)
Peer = Callable[..., Any]


def record_server(server: dict[str, Any]) -> bool:
    """Record an MCP server start as the probe does, because a program in memory starts no process."""
    if not isinstance(server["command"], str) or not os.path.exists(server["command"]):
        return False
    (record,) = [pair["value"] for pair in server["env"] if pair["name"] == "REWINDOW_CONFORMANCE_RECORD"]
    with open(record, "a", encoding="utf-8") as file:
        print(json.dumps({"started": server["args"][1:]}), file=file)
        print(json.dumps({"method": "initialize"}), file=file)
    return True


@dataclass(frozen=True)
class Subject:
    """The peers of a suite."""

    ids: str
    """A pattern for its requirement ids."""
    conforming: Peer
    defects: Mapping[str, Peer]
    """Defects, by the violated requirement."""
    make: Callable[[Peer, World], Any]
    options: Options = OPTIONS


SUBJECTS = {
    "acp": Subject(
        r"ACP1-A-[A-Z]+-\d{3}",
        acp_agent.Agent,
        acp_defects.DEFECTS,
        lambda peer, world: peer(world, record_server),
    ),
    "acp-2": Subject(
        r"ACP2-A-[A-Z]+-\d{3}",
        acp2_agent.Agent,
        acp2_defects.DEFECTS,
        lambda peer, world: peer(world),
    ),
    "acp-client": Subject(
        r"ACP1-C-[A-Z]+-\d{3}",
        acp_client.Client,
        acp_client_defects.DEFECTS,
        lambda peer, world: peer(world, partial(commands.Pretended, world)),
    ),
    "remote": Subject(
        r"ACPR-A-[A-Z]+-\d{3}",
        remote_endpoint.Endpoint,
        remote_endpoint.DEFECTS,
        lambda peer, world: peer(world),
    ),
    "mcp": Subject(
        r"MCP-S-[A-Z]+-\d{3}",
        mcp_server.Server,
        mcp_defects.DEFECTS,
        lambda peer, world: peer(world),
        Options(cwd="/project", slow_tool="slow", slow_arguments={"seconds": 3}, long_line=2_000_000),
    ),
    "vectors": Subject(
        r"VECTORS-(HELLO-\d{3}|APPEND-\w+|READY-\w+|CYCLES-\w+)",
        vectors_adapter.Adapter,
        {"VECTORS-HELLO-001": vectors_adapter.Nameless}
        | {row.id: vectors_adapter.wrong_at(row.id) for row in REQUIREMENTS if row.scenario},
        lambda peer, world: peer(world),
    ),
}
"""By the suite's name in SUITES."""


@cache
def suite(of: str = "acp") -> Suite:
    return SUITES[of]()


def in_memory(peer: Peer, of: str = "acp") -> Start:
    return lambda: MemoryPeer(lambda world: SUBJECTS[of].make(peer, world), suite(of).subject)


def defect(requirement: str, of: str = "acp") -> Peer:
    return SUBJECTS[of].defects[requirement]


def defects(of: str = "acp") -> Iterable[str]:
    return SUBJECTS[of].defects


def conforming(of: str = "acp") -> Peer:
    return SUBJECTS[of].conforming


@cache
def calibration(of: str = "acp") -> dict[str, Any]:
    opening = run_scenario(suite(of).opening, in_memory(conforming(of), of), SUBJECTS[of].options, {})
    return suite(of).calibration(Traffic(opening))


def transcript_of(scenario: str, peer: Peer | None = None, of: str = "acp") -> Transcript:
    """Run a scenario with a peer in memory, by default the conforming one."""
    found = next(one for one in suite(of).every_scenario() if one.name == scenario)
    facts = {"suite": of, "calibration": calibration(of)}
    return run_scenario(found, in_memory(peer or conforming(of), of), SUBJECTS[of].options, facts)


def shown_failing(transcript: Transcript, rows: Mapping[str, Requirement], of: str = "acp") -> set[str]:
    """Return the ids of failures. Each must show evidence, and missing answers a time."""
    failures = [one for one in suite(of).judge([transcript], rows) if one.verdict.outcome == "fail"]
    for one in failures:
        lines = list(terminal.entry_lines(transcript, one.verdict.evidence))
        assert any(line.split("ms", 1)[1].strip(" <>") for line in lines), one
        if re.search("not answered(?! with)|not acknowledged", one.verdict.reason):
            assert re.search(r"\d s\b", one.verdict.reason), one
    return {one.requirement.id for one in failures}


def failing(outcome: Run | list[Any]) -> set[str]:
    """Return the ids that failed at any level, or were not tested although mandatory."""
    results = outcome.results if isinstance(outcome, Run) else outcome
    return {r.requirement.id for r in results if r.is_violation or r.verdict.outcome == "fail"}
