"""Progress of `replay` and `rewind` over stdio, as the SDK's client has it in both eras: in order, ahead of a reply."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.support.mcp_clients import ERAS, SCRIPT, Caller, Era
from tests.support.workers import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
WAITING = """\
import os, time
n = {n}
while not os.path.exists('go-{n}'):
    time.sleep(0.01)
w = write('out.txt', '{n}')
"""
"""A statement that ends when its gate is open."""


class Wire:
    """A client of a server of which all that it writes goes into a file, too."""

    def __init__(self, root: Path, era: Era) -> None:
        self.root = root
        self.era: Era = era
        self.lines = root.parent / "wire"

    def server(self) -> Client:
        command = f"'{SCRIPT}' --allow-run=unsandboxed | tee '{self.lines}'"
        environ = {**os.environ, "REWINDOW_STATE_DIR": str(self.root.parent / "state")}
        return Client(
            StdioServerParameters(command="sh", args=["-c", command], cwd=self.root, env=environ), mode=self.era
        )

    def gate(self, number: int, *, is_open: bool) -> None:
        path = self.root / f"go-{number}"
        path.touch() if is_open else path.unlink()

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        """Opens the gate of the statement that is said to be under way."""
        del progress, total
        if message is not None and message.startswith("statement "):
            self.gate(int(message.split()[1]), is_open=True)

    async def told(self, caller: Caller, reply: str) -> list[tuple[float, float, str]]:
        """The progress of the call with that reply; all of it is written ahead of the reply."""
        await caller.text("timeline")  # what came before its answer is in the file
        lines: list[Any] = [json.loads(line) for line in self.lines.read_text().splitlines()]
        end = next(place for place, line in enumerate(lines) if reply in json.dumps(line.get("result", "")))
        found = [
            (place, line["params"])
            for place, line in enumerate(lines)
            if line.get("method") == "notifications/progress" and line["params"]["progressToken"] == lines[end]["id"]
        ]
        assert all(place < end for place, _ in found)
        return [(each["progress"], each["total"], each["message"]) for _, each in found]


@pytest.fixture
def wire(tmp_path: Path, era: Era) -> Wire:
    root = tmp_path / "project"
    root.mkdir()
    return Wire(root, era)


async def prepared(wire: Wire, caller: Caller) -> None:
    """Has three statements run that each wait for a gate, and shuts these."""
    for number in (1, 2, 3):
        wire.gate(number, is_open=True)
        await caller.text("run", code=WAITING.format(n=number))
    for number in (1, 2, 3):
        wire.gate(number, is_open=False)


@pytest.mark.parametrize("era", ERAS)
async def test_client_receives_progress_of_statements_and_files(wire: Wire) -> None:
    with anyio.fail_after(PATIENCE * 2):
        async with wire.server() as client:
            await prepared(wire, Caller(client))
            caller = Caller(client)
            await client.call_tool("replay", {"from": 1}, progress_callback=wire.note)
            assert await wire.told(caller, "3 statements ran again") == [
                (0, 3, "statement 1 (1 of 3)"),
                (1, 3, "statement 2 (2 of 3)"),
                (2, 3, "statement 3 (3 of 3)"),
                (3, 3, "3 statements ran again"),
            ]
            await client.call_tool("rewind", {"to": 1}, progress_callback=wire.note)
            *_, last = await wire.told(caller, "after statement 1")
            assert last == (1, 1, "1 of 1 file put back")
            assert (wire.root / "out.txt").read_text() == "1"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("arguments", [{"from": 1}, {"from": 1, "code": "n = 10"}], ids=["replay", "edit"])
async def test_cancel_in_the_middle_restores_the_former_position(wire: Wire, arguments: dict[str, Any]) -> None:
    with anyio.fail_after(PATIENCE * 2):
        async with wire.server() as client:
            caller = Caller(client)
            await prepared(wire, caller)
            before = await caller.text("timeline")
            with anyio.CancelScope() as scope:

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    del total, message
                    if progress >= 1:
                        scope.cancel()
                    elif "code" not in arguments:
                        wire.gate(1, is_open=True)

                await client.call_tool("replay", arguments, progress_callback=note)
            assert scope.cancelled_caught
            for number in (1, 2, 3):  # as they were when the statements ran, which do so again for the names
                wire.gate(number, is_open=True)
            assert (await caller.text("run", code="n")).endswith("\n3")
            assert (await caller.text("timeline")).split("\n")[:3] == before.split("\n")
            assert (wire.root / "out.txt").read_text() == "3"
