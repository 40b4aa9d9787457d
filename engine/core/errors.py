"""The errors that this program raises for misuse and for failures of its environment.

Failures of user code, of a model or of a peer are values, never exceptions. Each adapter translates this small tree at
one boundary. Every error has its facts as fields, and its message says what to do.
"""

from __future__ import annotations

from typing import Final

from .ids import SessionId
from .text import cut_line

_SHOWN_CHARS: Final = 80
"""The length of an id in a message."""


class EngineError(Exception):
    """The root of all errors below."""


class InvalidEventError(EngineError):
    """Raised by `EventLog.append` for an event that can never be valid on this log; nothing was written."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind} refused: {reason}")
        self.kind = kind
        self.reason = reason


class NoManipulationIndexError(EngineError):
    """Raised when the View has no manipulation index at or after `threshold`; a later event may bring one."""

    def __init__(self, threshold: int, length: int) -> None:
        super().__init__(
            f"the View has {length} events and no manipulation index at or after {threshold}; wait for more events"
        )
        self.threshold = threshold
        self.length = length


class SessionNotFoundError(EngineError):
    """Raised for a session that is not in the store."""

    def __init__(self, session_id: SessionId) -> None:
        shown = cut_line(session_id, _SHOWN_CHARS)
        super().__init__(f"no session {shown}; `rewindow sessions` lists the sessions")
        self.session_id = session_id


class SessionInUseError(EngineError):
    """Raised when a second process tries to write to a session; reading stays possible."""

    def __init__(
        self, session_id: SessionId, pid: int | None, *, host: str | None = None, seconds: float | None = None
    ) -> None:
        """`host`: where the process runs, None for this one. `seconds`: how long a killed process keeps the session."""
        owner = f"process {pid}" if pid is not None else "another process"
        where = f" on {host}" if host is not None else ""
        wait = f", or wait {seconds:.0f} s if it was killed" if seconds is not None else ""
        super().__init__(f"session {session_id} is in use by {owner}{where}; close it there first{wait}")
        self.session_id = session_id
        self.pid = pid
        self.host = host


class SessionBusyError(EngineError):
    """Raised for a prompt that cannot be accepted now: the session is closing, or too many prompts wait."""


class SessionReadOnlyError(EngineError):
    """Raised by an append after a commit failed (disk full, no permission, corrupt page).

    `for_now`: appended events wait and will be kept. Otherwise they are lost, and the session has its state on disk
    when it is opened again.
    """

    def __init__(self, session_id: SessionId, reason: str, *, for_now: bool = False) -> None:
        advice = "" if for_now else "; fix this, then open the session again"
        super().__init__(f"session {session_id} is read-only{' for now' if for_now else ''}: {reason}{advice}")
        self.session_id = session_id
        self.reason = reason
        self.for_now = for_now


class StoreError(EngineError):
    """Raised when the store itself cannot be opened, read or written."""


class StoreTooNewError(StoreError):
    """Raised for a store that a newer version wrote, which this version must not touch."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, but this program reads at most {known}; upgrade rewindow to open it"
        )
        self.path = path
        self.found = found
        self.known = known


class StoreGoneError(StoreError):
    """Raised when a file of the store was removed or replaced while it was in use. What was written to it is lost."""

    def __init__(self, path: str) -> None:
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        super().__init__(
            f"{shown} was removed or replaced during use, so nothing more is saved; copy what you "
            "need, and restart the agent"
        )
        self.path = path


class StoreBusyError(StoreError):
    """Passed to a session's commit listener while the store cannot take the commit, which is tried again.

    Another process keeps the store locked, or its server cannot be reached.
    """


class LeaseLostError(StoreError):
    """Passed to a session's commit listener after another process took the session over. Nothing more is written.

    That takes a process that did not renew its lease for `seconds`, because it was stopped or had no connection.
    `owner` is the host and the process that have the session now, None if none has it or the host is unknown.
    """

    def __init__(self, owner: tuple[str, int] | None, seconds: float) -> None:
        by = f"process {owner[1]} on {owner[0]}" if owner is not None else "another process"
        super().__init__(f"{by} took it over, because this process did not renew its lease for {seconds:.0f} s")
        self.owner = owner
        self.seconds = seconds


class EnvironmentUnavailableError(EngineError):
    """Raised when the worker could not be started, or was lost and could not be restored."""


class StatementLostError(EnvironmentUnavailableError):
    """Raised by `Environment.restore` if a statement that may not be skipped ended or broke its worker."""

    def __init__(self, label: str, fault: str) -> None:
        super().__init__(f"{label} {fault}")
        self.label = label
        self.fault = fault


class InvalidRequestError(EngineError):
    """Raised for a request that the caller must change before it can be served."""


class StatementWithdrawnError(EngineError):
    """Raised by `Session.cell` when the statement was cancelled before it began."""

    def __init__(self, session_id: SessionId) -> None:
        super().__init__(f"the statement did not run, because session {session_id} was cancelled or closed")
        self.session_id = session_id


class TurnFailedError(EngineError):
    """Raised when a defect of this program ended a turn; the log of the process says more."""

    def __init__(self, session_id: SessionId) -> None:
        super().__init__(f"the turn in session {session_id} failed with an internal error; see the agent's stderr")
        self.session_id = session_id


class KeyringError(EngineError):
    """Raised if the system's keyring does not answer, refuses, or is missing. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the keyring cannot be used: {reason}")
        self.reason = reason
