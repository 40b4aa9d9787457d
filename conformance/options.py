"""What the user chose for a run, of all suites: what programs are told, how long they are given, and what is allowed.

Plain values, which scenarios read and transcripts keep. Made by the commands.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.values import Object


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose, of which each suite reads what concerns it. Times are in seconds."""

    prompt: str = ""
    slow_prompt: str = ""
    tool_prompt: str = ""
    cwd: str = ""
    timeout: float = 10.0
    scenario_timeout: float = 30.0
    auth: str | None = None
    allow_logout: bool = False
    allow_always: bool = False
    """Whether permissions may be given and refused for ever, which an agent may keep beyond the run."""
    tool: str | None = None
    """The tool of a server that is called; None: one is looked for."""
    arguments: Object | None = None
    """What it is called with; None: made from its schema."""
    slow_tool: str | None = None
    """A tool whose call takes seconds, for progress and cancellation."""
    slow_arguments: Object | None = None
    allow_destructive: bool = False
    """Whether tools may be called that do not say that they change nothing."""
    long_line: int = 50 * 1024 * 1024
    """Bytes of the longest line that is sent."""
