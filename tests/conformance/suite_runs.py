"""Runs the suites over memory pipes, on the conforming peers and on their defects."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from conformance.driver import Options
from conformance.peers.memory import MemoryPeer
from conformance.runner import Run, Start, run_scenario
from conformance.suite import Suite
from conformance.suites import SUITES
from conformance.transcript import Transcript

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))  # they are programs of the standard library, with no package around them

import acp_agent  # noqa: E402
import acp_defects  # noqa: E402

OPTIONS = Options(prompt="hello", slow_prompt="count", tool_prompt="tool", cwd="/project", long_line=2_000_000)
Agent = Callable[..., Any]


@cache
def suite() -> Suite:
    return SUITES["acp"]()


def record_server(server: dict[str, Any]) -> bool:
    """Does what the probe does that an agent starts: a program in memory starts no process."""
    if not os.path.exists(server["command"]):
        return False
    (record,) = [pair["value"] for pair in server["env"] if pair["name"] == "REWINDOW_CONFORMANCE_RECORD"]
    with open(record, "a", encoding="utf-8") as file:
        print(json.dumps({"started": server["args"][1:]}), file=file)
        print(json.dumps({"method": "initialize"}), file=file)
    return True


def in_memory(agent: Agent) -> Start:
    return lambda: MemoryPeer(lambda world: agent(world, record_server))


def defect(requirement: str) -> Agent:
    return acp_defects.DEFECTS[requirement]


def defects() -> Iterable[str]:
    return acp_defects.DEFECTS


@cache
def calibration() -> dict[str, Any]:
    return suite().calibration_of(run_scenario(suite().opening, in_memory(acp_agent.Agent), OPTIONS, {}))


def transcript_of(scenario: str, agent: Agent = acp_agent.Agent) -> Transcript:
    """One scenario with an agent in memory."""
    found = next(one for one in suite().every_scenario() if one.name == scenario)
    return run_scenario(found, in_memory(agent), OPTIONS, {"suite": "acp", "calibration": calibration()})


def failing(outcome: Run | list[Any]) -> set[str]:
    """The ids of the requirements that failed, of any level, or were not tested and had to be."""
    results = outcome.results if isinstance(outcome, Run) else outcome
    return {r.requirement.id for r in results if r.is_violation or r.verdict.outcome == "fail"}


def conforming() -> Agent:
    return acp_agent.Agent
