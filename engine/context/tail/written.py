"""How statements stand in text, for models that cannot call tools: the cell as a block, what came of it in a fence.

One spelling for what a model is told to write, for what it reads of its earlier statements, and for what that costs.
Pure. Called by `instructions`, `prompt` and the models.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.text import fenced, printable
from ...log.events.conversation import ToolCall

STATEMENT_TOOL: Final = "python"
"""The one tool that a model has."""
MEDIA_TYPE: Final = "text/x-python"
OPENING: Final = f'<script type="{MEDIA_TYPE}">'
CLOSING: Final = "</script>"
REST_LEFT_OUT: Final = "Only one statement of a reply is run; the rest of this reply was left out."
"""What user and model are told where a reply held more than its text and one statement."""
_RESULT: Final = "[Result of the statement]"


def written_call(call: ToolCall) -> str:
    """What the model reads as its own words: the cell as a block; a call of another program's tool as what it was."""
    source = call.arguments.get("source")
    if call.tool == STATEMENT_TOOL and isinstance(source, str):
        return f"{OPENING}\n{source.removesuffix(chr(10))}\n{CLOSING}"
    return f"[Call of {printable(call.tool)}]\n{fenced(msgspec.json.encode(call.arguments).decode())}"


def written_result(text: str) -> str:
    """What the model reads as the user's message, in a fence that nothing in the result can end."""
    return f"{_RESULT}\n{fenced(text)}"


def with_note(text: str, call: ToolCall) -> str:
    """A text of the call, its source or its result, with the sentence on what was left out of its reply, if so."""
    return f"{text}\n[{REST_LEFT_OUT}]" if call.rest_left_out else text
