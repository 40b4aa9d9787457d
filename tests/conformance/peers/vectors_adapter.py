"""An adapter that answers as the vectors expect, and one wrong answer for each of them. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[3] / "conformance" / "specification" / "vectors"
PARTS = {"view.append": ("view", "appended"), "view.ready": ("view", "enforced"), "cycles": ("cycles", None)}


def _outcomes() -> dict[str, dict[str, Any]]:
    """Return expected results by operation, with events as JSON keys."""
    found: dict[str, dict[str, Any]] = {}
    for operation, (file, part) in PARTS.items():
        rows = json.loads((VECTORS / f"{file}.json").read_text(encoding="utf-8"))["vectors"]
        found[operation] = {
            json.dumps(row["events"]): row["expected"][part] if part else row["expected"] for row in rows
        }
    return found


OUTCOMES = _outcomes()


class Adapter:
    """Conforming. It looks up the events, so that it implements no rule that could be wrong."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.rest = b""

    def receive(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            question = json.loads(line)
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": self.result(question)}
            self.world.write(json.dumps(answer).encode() + b"\n")

    def result(self, question: dict[str, Any]) -> Any:
        if question["method"] == "hello":
            return self.introduction()
        return OUTCOMES[question["method"]][json.dumps(question["params"]["events"])]

    def introduction(self) -> dict[str, Any]:
        return {"name": "conforming", "operations": list(PARTS)}

    def input_ended(self) -> None:
        self.world.exit(0)


class Nameless(Adapter):
    def introduction(self) -> dict[str, Any]:
        return {**super().introduction(), "name": ""}


def wrong_at(name: str) -> type[Adapter]:
    """Add a field, remove one, or change a value in one answer."""

    class Wrong(Adapter):
        def result(self, question: dict[str, Any]) -> Any:
            result = super().result(question)
            if question["id"] != name:
                return result
            first = next(iter(result))
            changes: list[Callable[[], dict[str, Any]]] = [
                lambda: {**result, "more": 1},
                lambda: {key: value for key, value in result.items() if key != first},
                lambda: {**result, first: [*result[first], "x"] if isinstance(result[first], list) else "x"},
            ]
            return changes[len(name) % len(changes)]()

    return Wrong
