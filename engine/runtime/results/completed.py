"""What `bash` returns: how a command ended and what it printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...core.text import cut_middle

SHOWN_CHARS: Final = 4_000
"""Of the output, in the repr: half from the beginning, half from the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that has ended.

    Args:
        code: its exit code; None where it has none, because it was killed or ended by us.
        output: what it printed, stdout and stderr in order; `truncated` where a line in the middle stands for more.
        timed_out: whether it took longer than it might.
        signal: the name of the signal that killed it, if one did.
        reason: why we ended it, where that was not for its time.
        seconds: how long it ran, which makes no difference between two of them.
    """

    code: int | None
    output: str
    truncated: bool
    timed_out: bool
    signal: str | None
    reason: str
    seconds: float = field(compare=False)

    def __repr__(self) -> str:
        output, end = cut_middle(self.output, SHOWN_CHARS), self._end()
        if not output:
            return end or "(no output)"
        return f"{output.removesuffix(chr(10))}\n({end})" if end else output.removesuffix("\n")

    def _end(self) -> str:
        """How it ended, where that is not well."""
        if self.timed_out:
            return f"timed out: ended after {self.seconds:.3g} s with all that it had started"
        if self.signal:
            return f"killed by {self.signal}"
        if self.code is None:
            return f"ended: {self.reason}"
        return f"exit code {self.code}" if self.code else ""
