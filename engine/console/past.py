"""What a person is shown who comes back to a session: which one it is, and how it ended.

Pure. Called by `program`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..cutting import cut_line, plural
from ..events import AnyEvent
from ..events.conversation import UserMessage
from ..events.execution import StatementRecorded
from ..ids import SessionId
from ..terminal.printing import shown
from .fragments import Fragment
from .transcript import Transcript

SHOWN_EXCHANGES: Final = 3
"""Of the messages of the user, so many are shown, with what came of each."""
_TITLE_CHARS: Final = 80


def heading(session_id: SessionId, cwd: str, title: str | None, events: Sequence[AnyEvent]) -> list[Fragment]:
    """One line on a session that goes on."""
    count = sum(isinstance(event, StatementRecorded) for event in events)
    named = f" {cut_line(shown(title), _TITLE_CHARS)!r}" if title else ""
    about = f" in {shown(cwd)}, {count:,} {plural(count, 'statement')}"
    return [("strong", f"Session {session_id}{named}"), ("quiet", f"{about}\n")]


def last_exchanges(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    """What was said and done since the user's last messages, and how much there was before."""
    said = [place for place, event in enumerate(events) if isinstance(event, UserMessage)]
    if not said:
        return
    before = len(said) - SHOWN_EXCHANGES
    if before > 0:
        yield "quiet", f"... {before:,} earlier {plural(before, 'message')}, see `rewindow show`\n"
    for event in events[said[-SHOWN_EXCHANGES:][0] :]:
        yield from transcript.show_past(event)
    yield from transcript.finish_line()
    yield "", "\n"
