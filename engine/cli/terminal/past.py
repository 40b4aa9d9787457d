"""What a person is shown who comes back to a session: which one it is, and how it ended.

Pure. Called by `program`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...core.ids import SessionId
from ...core.text import cut_line, more, plural
from ...log.events import AnyEvent
from ...log.events.conversation import UserMessage
from ...log.events.execution import StatementRecorded
from ..output.printing import shown
from .fragments import Fragment
from .transcript import Transcript

SHOWN_EXCHANGES: Final = 3
"""Of the messages of the user, so many are shown, with what came of each."""
SHOWN_LINES: Final = 200
"""Of all that, the last ones."""
_TITLE_CHARS: Final = 80


def heading(session_id: SessionId, cwd: str, title: str | None, events: Sequence[AnyEvent]) -> list[Fragment]:
    """One line on a session that goes on."""
    count = sum(isinstance(event, StatementRecorded) for event in events)
    named = f" {cut_line(shown(title), _TITLE_CHARS)!r}" if title else ""
    about = f" in {shown(cwd)}, {count:,} {plural(count, 'statement')}"
    return [("strong", f"Session {session_id}{named}"), ("quiet", f"{about}\n")]


def last_exchanges(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    """What was said and done since the user's last messages, and how much there was before."""
    transcript.remember(events)
    said = [place for place, event in enumerate(events) if isinstance(event, UserMessage)]
    if not said:
        return
    before = len(said) - SHOWN_EXCHANGES
    if before > 0:
        yield "quiet", f"... {before:,} earlier {plural(before, 'message')}, see `rewindow show`\n"
    lines = _lines(_shown(events[said[-SHOWN_EXCHANGES:][0] :], transcript))
    if len(lines) > SHOWN_LINES:
        yield "quiet", f"{more(len(lines) - SHOWN_LINES, 'line', 'above')}\n"
    for line in lines[-SHOWN_LINES:]:
        yield from line
    yield "", "\n"


def _shown(events: Sequence[AnyEvent], transcript: Transcript) -> Iterator[Fragment]:
    for event in events:
        yield from transcript.show_past(event)
    yield from transcript.finish_line()


def _lines(fragments: Iterable[Fragment]) -> list[list[Fragment]]:
    lines: list[list[Fragment]] = [[]]
    for style, text in fragments:
        for line in io.StringIO(text, newline="\n"):
            lines[-1].append((style, line))
            if line.endswith("\n"):
                lines.append([])
    return lines if lines[-1] else lines[:-1]
