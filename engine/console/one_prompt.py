"""One prompt without a person: its turn is shown as plain text, and how it ended is an exit code.

Nobody can be asked, so every question is answered with no. Called by `program`.
"""

from __future__ import annotations

from ..sessions.session import Session
from .mentions import with_mentions
from .permissions import NobodyToAsk
from .pump import Pump

DONE = 0
NOT_DONE = 1
INTERRUPTED = 130


async def answer(session: Session, text: str, pump: Pump, *, is_python: bool) -> int:
    """Carries out the prompt, until all of it was shown; the exit code: done, not done, or interrupted.

    Not done is a turn that ended in another way than its end, one in which something was refused, because nobody could
    be asked, and, where the prompt itself is the statement, a statement that failed.

    Raises:
        EngineError: the turn cannot be carried out or recorded.
    """
    nobody = NobodyToAsk()
    session.attach(nobody)
    end = await session.accept(text if is_python else with_mentions(text, session.cwd)).end()
    await pump.finished(session, end)
    if end.failure is not None:
        raise end.failure
    if end.cause == "cancelled":
        return INTERRUPTED
    failed = is_python and _last_failed(session)
    return DONE if end.cause == "end_turn" and not nobody.has_refused and not failed else NOT_DONE


def _last_failed(session: Session) -> bool:
    finished = session.cells[-1].finished if session.cells else None
    return finished is not None and finished.status != "ok"
