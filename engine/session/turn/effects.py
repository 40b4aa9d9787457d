"""What comes out of a turn: what its driver is to do next, one thing at a time.

`round` counts the Rounds of the turn from 0. Which number one has on the log is the driver's business, because others
open Rounds meanwhile.
"""

from __future__ import annotations

from msgspec import Struct

from ...core.ids import ToolCallId
from ...log.events.conversation import CondensationReason, StopCause


class CallModel(Struct, frozen=True):
    """Call the model. With `may_condense` the outcome may be ContextFull; without, it is called with what fits."""

    round: int
    may_condense: bool = True


class Condense(Struct, frozen=True):
    """Take from the View what it can do without."""

    reason: CondensationReason


class AskPermission(Struct, frozen=True):
    """Ask the user whether the statement may run."""

    source: str
    tool_call_id: ToolCallId


class RunStatement(Struct, frozen=True):
    """Run one cell. `tool_call_id` is None for an opening, which no model asked for.

    `approved`: the user stands behind it with all that it does, so nobody is asked about its acts.
    """

    source: str
    round: int
    tool_call_id: ToolCallId | None = None
    approved: bool = False


class RunTick(Struct, frozen=True):
    """Let running nodes catch up with their sources."""

    round: int


class Abort(Struct, frozen=True):
    """Give up the effect that is being performed, at once; its outcome is still to be fed in."""


class Stop(Struct, frozen=True):
    """The turn is over; `detail` explains cause `error`; `unusable` says that the model has to be set up first."""

    cause: StopCause
    detail: str | None = None
    unusable: bool = False


Effect = CallModel | Condense | AskPermission | RunStatement | RunTick | Abort | Stop
