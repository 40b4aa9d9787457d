"""What is fed into a turn: how each effect ended, and what the user does meanwhile."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...core.ids import ToolCallId


class Begin(Struct, frozen=True):
    """The prompt's turn has come."""


class Ticked(Struct, frozen=True):
    """The tick is done."""


class WantedStatement(Struct, frozen=True):
    """The cell that a reply wants run; `ask`: the user decides first; `approved`: it is the user's own, or allowed."""

    source: str
    tool_call_id: ToolCallId
    ask: bool = False
    approved: bool = False


class Replied(Struct, frozen=True):
    """The model's reply is complete."""

    wanted: WantedStatement | None = None
    cause: Literal["end", "length", "refusal"] = "end"


class ContextFull(Struct, frozen=True):
    """The context is too long, or a condensation is wanted. `refused`: the provider said so, else nobody was called."""

    refused: bool = False


class Condensed(Struct, frozen=True):
    """The condensation is done, or nothing could be left out."""


class Answered(Struct, frozen=True):
    """The user decided about the statement."""

    allowed: bool


class Dismissed(Struct, frozen=True):
    """The user closed the question without deciding, which gives up the turn: asking again would be no use."""


class Steered(Struct, frozen=True):
    """The user said something that the next model call will read; there has to be one."""


class Ran(Struct, frozen=True):
    """The statement ended, in whatever way."""


class Failed(Struct, frozen=True):
    """The effect could not be performed; `detail` is for the user, who has to set up the model first if `unusable`."""

    detail: str
    unusable: bool = False


class Aborted(Struct, frozen=True):
    """The effect was given up because of an `Abort`."""


class Cancel(Struct, frozen=True):
    """The user wants the turn to end now."""


Outcome = (
    Begin
    | Ticked
    | Replied
    | ContextFull
    | Condensed
    | Answered
    | Dismissed
    | Steered
    | Ran
    | Failed
    | Aborted
    | Cancel
)
