"""Random changes of what the conforming MCP server sends: those that a general validator refuses are caught.

And whatever is changed, each scenario ends and each report can be written.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.documents import json_document
from conformance.reports import REPORTS, Context, terminal
from conformance.runner import Plan, Run, run
from conformance.traffic import Traffic
from conformance.transcript import load
from tests.conformance.suite_runs import SUBJECTS, Peer, in_memory, mcp_server, suite, transcript_of

pytestmark = pytest.mark.slow
ODD: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [None], {"a": 1}, [[1]], float("inf"), "\ud800"]
SHAPES = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
}
SHOWING = ("lists", "resources", "prompts", "completions", "calls")


def judged(peer: Peer) -> Run:
    return run(Plan(suite("mcp"), in_memory(peer, "mcp"), SUBJECTS["mcp"].options, jobs=1))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def change(value: Any, place: tuple[Any, ...], given: Any, *, cut: bool) -> bool:
    """Changes what stands at a place; False where nothing does."""
    node = value
    for key in place[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return False
    known = place[-1] in node if isinstance(node, dict) else isinstance(node, list) and place[-1] < len(node)
    if known and cut and isinstance(node, dict):
        del node[place[-1]]
    elif known:
        node[place[-1]] = given
    return known


@cache
def samples() -> list[tuple[str, str, Any]]:
    """Results of the conforming server, with their method and version."""
    found: dict[str, tuple[str, str, Any]] = {}
    for version in (mcp_server.HANDSHAKE, mcp_server.MODERN):
        for scenario in SHOWING:
            for message in Traffic(transcript_of(f"{scenario}-{version}", of="mcp")).sent("server"):
                asked = message.answers.method if message.answers is not None else ""
                if asked in SHAPES and "result" in message.object:
                    found.setdefault(f"{asked} {version}", (asked, version, message.result))
    return list(found.values())


def is_valid(method: str, version: str, result: Any) -> bool:
    definitions = json_document(f"mcp.{version}.schema")["$defs"]
    schema = {"$ref": f"#/$defs/{SHAPES[method]}", "$defs": definitions}
    return Draft202012Validator(schema).is_valid(result)


@pytest.mark.parametrize("seed", range(40))
def test_a_change_that_a_general_validator_refuses_is_caught(seed: int) -> None:
    chance = random.Random(seed)
    method, version, sample = chance.choice(samples())
    place, given, cut = chance.choice(list(places(sample))), chance.choice(ODD[:-2]), chance.random() < 0.3
    refused = False

    class Changing(mcp_server.Server):
        def send(self, message: dict[str, Any]) -> None:
            nonlocal refused
            request = self.asked.get(repr(message.get("id")), {})
            if "result" in message and request.get("method") == method and mcp_server.version_of(request) == version:
                message = copy.deepcopy(message)
                changed = change(message["result"], place, copy.deepcopy(given), cut=cut)
                refused = refused or (changed and not is_valid(method, version, message["result"]))
            super().send(message)

    outcome = judged(Changing)
    assert outcome.code != 0 or not refused, (method, version, place, "cut" if cut else given)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_server_sends_every_scenario_ends_and_every_report_is_written(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rate = chance.choice([0.02, 0.1, 0.5])

    class Spoiling(mcp_server.Server):
        def send(self, message: dict[str, Any]) -> None:
            if chance.random() < rate:
                message = copy.deepcopy(message)
                place = chance.choice(list(places(message)))
                change(message, place, chance.choice(ODD), cut=chance.random() < 0.3)
            super().send(message)

        def encode(self, message: dict[str, Any]) -> bytes:
            return json.dumps(message).encode() + b"\n"

        def take(self, request: dict[str, Any]) -> None:
            try:
                super().take(request)
            except (KeyError, TypeError, AttributeError, ValueError):
                self.refuse(request, -32603, "Internal error")  # of what it was sent back, changed

    outcome = judged(Spoiling)
    context = Context(["server"], {})
    for name, kind in REPORTS.items():
        (tmp_path / name).write_text(kind.render(outcome, context), encoding="utf-8")
    assert terminal.render(outcome, context, verbose=True).encode()
    for transcript in outcome.transcripts:
        transcript.save(tmp_path / "saved.jsonl")
        assert len(load(tmp_path / "saved.jsonl").entries) == len(transcript.entries)
