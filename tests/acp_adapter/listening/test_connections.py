"""Connections of users: how many there may be, and what ends them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_adapter.listening import connections
from acp_adapter.listening.connections import MAX_CONNECTIONS, Connections, RefusedError
from acp_adapter.listening.users import TokenFile, User

pytestmark = pytest.mark.anyio
ANN = User("ann", "ann")


class Idle:
    """A host's connection, and its placement, which takes a moment."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def start(self, user: User) -> Idle:
        await anyio.sleep(0.01)
        return self

    async def connect(self) -> Idle:
        return self

    async def receive(self) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass

    def find(self, user: str) -> Idle:
        return self

    async def end(self, user: str) -> None:
        self.ended.append(user)

    async def leave(self) -> None:
        pass

    def list(self) -> Sequence[User]:
        return [ANN]


async def test_as_many_connections_as_allowed_even_if_they_are_opened_at_once(tmp_path: Path) -> None:
    users = TokenFile(tmp_path / "tokens")
    token, _ = users.add(ANN)
    refused: list[RefusedError] = []
    async with anyio.create_task_group() as tasks:
        found = Connections(Idle(), users, tasks)

        async def open_one() -> None:
            try:
                await found.open(token)
            except RefusedError as error:
                refused.append(error)

        async with anyio.create_task_group() as clients:
            for _ in range(MAX_CONNECTIONS + 10):
                clients.start_soon(open_one)
    assert len(refused) == 10


class Talking(Idle):
    """A host that sends much."""

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return b'{"method": "session/update", "params": {"sessionId": "s", "text": "' + b"x" * 1000 + b'"}}\n'


async def test_what_nobody_reads_is_bounded_for_each_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_KEPT", 100_000)
    users = TokenFile(tmp_path / "tokens")
    token, _ = users.add(ANN)
    async with anyio.create_task_group() as tasks:
        found = Connections(Talking(), users, tasks)
        opened = [await found.open_streamed(token) for _ in range(3)]
        with anyio.fail_after(10):
            for connection in opened:
                await connection.ended.wait()
        assert {connection.reason for connection in opened} == {"the client did not read its messages"}


@pytest.mark.parametrize(("number", "is_kept"), [(errno.EMFILE, True), (errno.EIO, True), (errno.EACCES, False)])
async def test_a_file_of_tokens_that_cannot_be_read_just_now_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_kept: bool
) -> None:
    monkeypatch.setattr(connections, "REVOKED_SECONDS", 0.01)
    users, placement = TokenFile(tmp_path / "tokens"), Idle()
    token, _ = users.add(ANN)
    reads, tried = 0, anyio.Event()
    opened = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        nonlocal reads
        if path == users.path:
            reads += 1
            if reads == 5:
                tried.set()
            raise OSError(number, os.strerror(number))
        return opened(path, *arguments, **options)

    async with anyio.create_task_group() as tasks:
        found = Connections(placement, users, tasks)
        connection = await found.open(token)
        monkeypatch.setattr(os, "open", fail)
        tasks.start_soon(found.watch)
        with anyio.fail_after(10):
            await tried.wait()
        tasks.cancel_scope.cancel()
    assert (not connection.ended.is_set(), placement.ended == []) == (is_kept, is_kept)
