"""Every field of a session file with every boundary value and wrong type: refused, or a session like any other."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path

import pytest

from acp_adapter.pump import Pump
from engine.cli.transfer.jsonl import export_lines, import_lines
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.core.ids import SessionId
from engine.log.store.memory import MemoryStore
from tests.support.acp_schema import validate_outgoing
from tests.support.hollow import HollowEnvironment
from tests.support.hostile import Session, mutations
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
PARTS = 8


async def works(store: MemoryStore, session_id: SessionId, place: Path) -> None:
    """It is loaded and shown as the schema wants it, goes on, and can be exported and imported again."""
    async with sessions_of(place, store, environments=HollowEnvironment) as sessions:
        session = await sessions.load(session_id, str(place))
        shown: list[dict[str, object]] = []

        async def send(update: dict[str, object]) -> None:
            shown.append(update)

        await Pump(session.subscribe(), session, send).replay(session.events)
        for update in json.loads(json.dumps(shown)):
            params = {"sessionId": "s", "update": update}
            validate_outgoing({"jsonrpc": "2.0", "method": "session/update", "params": params}, None)
        end = await session.accept("1 + 1").end()
        assert (end.cause, end.failure) == ("end_turn", None)
    exported = b"".join(export_lines(store, session_id))
    import_lines(store, io.BytesIO(exported), "it", SessionId("ses_again"))


def refusal(store: MemoryStore, file: bytes) -> str | None:
    """The sentence with which an import refuses the file."""
    try:
        import_lines(store, io.BytesIO(file), "it")
    except InvalidRequestError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("step", "start"),
    [(2003, 3), *(pytest.param(8 * PARTS, 8 * part, marks=pytest.mark.slow) for part in range(PARTS))],
)
async def test_a_changed_field_is_refused_in_a_short_sentence_or_harms_nothing(
    step: int, start: int, tmp_path: Path
) -> None:
    refused = taken = 0
    for name, make in islice(mutations(Session(tmp_path)), start, None, step):
        store = MemoryStore(SystemClock())
        try:
            sentence = refusal(store, make())
            if sentence is None:
                taken += 1
                (row,) = store.rows()
                await works(store, row.session_id, tmp_path)
            else:
                refused += 1
                assert len(sentence) < 500
                assert "\n" not in sentence
        except BaseException as error:
            error.add_note(name)
            raise
    assert min(refused, taken) > 1
