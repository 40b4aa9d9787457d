"""What handlers answer, whatever version of the protocol the client speaks. Methods that answer nothing give None.

Plain values without behaviour. Made by handlers, written by the codec of the connection's version
(`acp_adapter.wire`). Must not know how anything looks on the wire.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine import SessionRow


class Initialized(Struct, frozen=True):
    """`version` is the version of the protocol that is spoken from now on, `agent_version` ours.

    `sign_in` is None where there is nothing to sign in to.
    """

    version: int
    agent_version: str
    sign_in: SignIn | None = None


class SignIn(Struct, frozen=True):
    """How a person gets what the model needs; `description` is a sentence."""

    method_id: str
    name: str
    description: str


class Choice(Struct, frozen=True):
    """One value of an option."""

    value: str
    name: str
    description: str | None = None


class Option(Struct, frozen=True):
    """An option of a session with its value in force; `category` is the protocol's word for what it is about."""

    option_id: str
    name: str
    value: str
    choices: tuple[Choice, ...]
    description: str | None = None
    category: str | None = None


class Options(Struct, frozen=True):
    """Every option of a session; the first is its mode, which clients of version 1 know by itself too."""

    all: tuple[Option, ...]

    @property
    def mode(self) -> Option:
        return self.all[0]


class OpenedSession(Struct, frozen=True):
    session_id: str
    options: Options


class SessionPage(Struct, frozen=True):
    """Some sessions, and where to go on if there are more."""

    rows: tuple[SessionRow, ...]
    next_cursor: str | None = None


StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
"""Why a turn ends that does not fail, in the protocol's words."""


class PromptEnded(Struct, frozen=True):
    """A prompt's turn has ended."""

    reason: StopReason
