"""What a page does to a session: each action is one operation of the public API, with its questions and refusals.

An action names the branch that its page shows as active. On another branch a number means another statement, so the
action is refused if the branch has changed meanwhile. The session is opened here by the first action that needs it, and
closed again when nobody looks at it any more (`server`).

Must not know HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from engine import Host, Progress, ReplayReport, Session, with_progress
from engine.core.errors import InvalidRequestError, SessionNotFoundError
from engine.core.ids import SessionId
from engine.log.events.going_back import FileLeft, FileToRestore
from engine.log.forms import Value
from session_page.feed import Feed

OTHER_BRANCH: Final = "Branch {active} is active now, not {given}, which this page showed. Look at it and try again."
NOT_ANSWERABLE: Final = "This session is not open here, so its questions are asked elsewhere."


class Open(Struct, frozen=True, tag_field="action", tag="open", forbid_unknown_fields=True):
    """Open the session, so that it can act."""


class Cancel(Struct, frozen=True, tag_field="action", tag="cancel", forbid_unknown_fields=True):
    """End what runs, and what waits."""


class Preview(Struct, frozen=True, kw_only=True, tag_field="action", tag="preview", forbid_unknown_fields=True):
    """Say which files a rewind would restore."""

    branch: str
    statement: int


class Rewind(Struct, frozen=True, kw_only=True, tag_field="action", tag="rewind", forbid_unknown_fields=True):
    """Go back to the end of a statement."""

    branch: str
    statement: int
    files: bool = True
    conversation: bool = True


class Switch(Struct, frozen=True, kw_only=True, tag_field="action", tag="switch", forbid_unknown_fields=True):
    """Make another branch active."""

    branch: str
    to: str
    files: bool = True


class Edit(Struct, frozen=True, kw_only=True, tag_field="action", tag="edit", forbid_unknown_fields=True):
    """Run a source in place of a statement, on a new branch, and the later statements after it."""

    branch: str
    statement: int
    source: str
    mode: Literal["recorded", "live"] = "recorded"


class Replay(Struct, frozen=True, kw_only=True, tag_field="action", tag="replay", forbid_unknown_fields=True):
    """Run statements again and compare."""

    branch: str
    first: int
    last: int | None = None
    mode: Literal["recorded", "live", "dry"] = "recorded"


class Prompt(Struct, frozen=True, kw_only=True, tag_field="action", tag="prompt", forbid_unknown_fields=True):
    """Take a prompt."""

    branch: str
    text: str


class Answer(Struct, frozen=True, kw_only=True, tag_field="action", tag="answer", forbid_unknown_fields=True):
    """Answer a question for a permission."""

    question: str
    outcome: str
    reason: str = ""
    remember: bool = False
    rest: bool = False


class Fill(Struct, frozen=True, kw_only=True, tag_field="action", tag="fill", forbid_unknown_fields=True):
    """Answer a form."""

    question: str
    outcome: str
    values: dict[str, Value] = {}


Action = Open | Cancel | Preview | Rewind | Switch | Edit | Replay | Prompt | Answer | Fill
_DECODER: Final[msgspec.json.Decoder[Action]] = msgspec.json.Decoder(Action)


def action_of(data: bytes) -> Action:
    """Read an action. Raises InvalidRequestError."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"the action cannot be read: {error}") from None


class Actions:
    """Performs actions on the sessions of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._opened_here: set[SessionId] = set()
        """The sessions that actions have opened. Others of this process are somebody else's, such as an editor's."""

    async def perform(self, action: Action, feed: Feed) -> Mapping[str, Any]:
        """Perform an action, and return its result for JSON.

        Raises:
            EngineError: the session refuses it, or cannot be opened here.
        """
        match action:
            case Answer() | Fill() | Cancel():
                return self._answer(action, feed)
            case _:
                session = await self._opened(feed)
                if isinstance(action, Open):
                    return {"state": feed.state}
                active = _active(session)
                if action.branch != active:
                    raise InvalidRequestError(OTHER_BRANCH.format(active=active, given=action.branch))
                return await _perform(action, session, feed)

    def _answer(self, action: Answer | Fill | Cancel, feed: Feed) -> Mapping[str, Any]:
        match action:
            case Answer():
                feed.questions.answer(
                    action.question, action.outcome, action.reason, remember=action.remember, rest=action.rest
                )
            case Fill():
                feed.questions.fill_in(action.question, action.outcome, action.values)
            case Cancel():
                if (session := self.find(feed)) is None:
                    raise InvalidRequestError(NOT_ANSWERABLE)
                session.cancel()
        return {}

    def find_id(self, session_id: SessionId) -> Session | None:
        """Return the session of that id if it is open in this process."""
        try:
            return self._host.sessions.find(session_id)
        except SessionNotFoundError:
            return None

    def find(self, feed: Feed) -> Session | None:
        """Return the session if it is open in this process."""
        return self.find_id(feed.session_id)

    async def _opened(self, feed: Feed) -> Session:
        session = self.find(feed)
        if session is None:
            session = await self._host.sessions.load(feed.session_id)
            self._opened_here.add(feed.session_id)
            feed.ask(session, is_own=True)
        return session

    async def close(self, feed: Feed) -> bool:
        """Close the session if an action has opened it, unless it is busy; return whether nothing is left to do."""
        session = self.find(feed)
        if session is not None and feed.session_id in self._opened_here:
            if session.is_busy:
                return False
            await self._host.sessions.close(feed.session_id)
        self._opened_here.discard(feed.session_id)
        return True


async def _perform(
    action: Preview | Rewind | Switch | Edit | Replay | Prompt, session: Session, feed: Feed
) -> Mapping[str, Any]:
    match action:
        case Preview():
            found = await session.preview_rewind(action.statement)
            return {"files": _files(found.files, session), "left": _files(found.left, session)}
        case Rewind() | Switch():
            rewound = await _reporting(session, feed, lambda: _go(action, session))
            return {
                "restored": _files(rewound.restored if rewound else (), session),
                "left": _files(rewound.left if rewound else (), session),
                "branch": _active(session),
            }
        case Edit() | Replay():
            report = await _reporting(session, feed, lambda: _run_again(action, session))
            return {"report": report.text(), "outcome": report.outcome, "branch": _active(session)}
        case Prompt():
            return {"message": session.accept(action.text).message_id}


async def _go(action: Rewind | Switch, session: Session) -> Any:
    if isinstance(action, Rewind):
        return await session.rewind(action.statement, files=action.files, conversation=action.conversation)
    return await session.switch(action.to, files=action.files)


async def _run_again(action: Edit | Replay, session: Session) -> ReplayReport:
    if isinstance(action, Edit):
        return await session.edit(action.statement, action.source, mode=action.mode)
    return await session.replay(action.first, action.last, action.mode)


async def _reporting(session: Session, feed: Feed, act: Callable[[], Awaitable[Any]]) -> Any:
    async def report(progress: Progress) -> None:
        feed.report(progress.text)

    try:
        return await with_progress(session, act, report)
    finally:
        feed.report("")


def _files(files: Iterable[FileToRestore | FileLeft], session: Session) -> list[dict[str, str]]:
    return [
        {
            "path": file.path,
            "name": _name(session.spelled(file.path), session.cwd),
            "reason": file.reason if isinstance(file, FileLeft) else "",
        }
        for file in files
    ]


def _name(path: str, cwd: str) -> str:
    return os.path.relpath(path, cwd) if path.startswith(os.path.join(cwd, "")) else path


def _active(session: Session) -> str:
    return next(row.name for row in session.branches if row.is_active)
