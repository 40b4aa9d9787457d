"""The requests of MCP servers for replies of the session's model (`sampling/createMessage`), and what is asked first.

Only texts are taken, and each request asks the user, who sees all of it. Pure. `mcp_client` receives the requests, and
`tool_calls` asks and answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from ...log.forms import Choice, Field, FormAnswer

LONGEST_TEXT: Final = 50_000
"""Characters of a request: its messages and its system prompt."""
MOST_TOKENS: Final = 4_096
"""Tokens of a reply, whatever the server wants."""
_TOKEN_CHARS: Final = 4
"""In English a token has about four characters."""
ANSWER: Final = "answer"
ALLOW: Final = "Allow"
REFUSE: Final = "Refuse"
FIELDS: Final = (
    Field(name=ANSWER, title="Answer", is_required=True, choices=(Choice(ALLOW, ALLOW), Choice(REFUSE, REFUSE))),
)
NO_MODEL: Final = "this session has no language model"
_ASKED: Final = "may {model} answer this, in at most {tokens:,} tokens? The server gets the answer.\n\n{text}"
_SYSTEM: Final = "[system prompt]\n{text}"
INSTRUCTIONS: Final = "Answer the request of a program that works for the user. Write nothing but the answer."


class Sampling(Struct, frozen=True):
    """A request: its system prompt, "" for none, its messages as one text, and the most tokens of the reply."""

    system: str
    text: str
    tokens: int

    def redacted(self, redact: Callable[[str], str]) -> Sampling:
        """Return the request without secrets."""
        return Sampling(redact(self.system), redact(self.text), self.tokens)

    @property
    def most_chars(self) -> int:
        """The characters after which a reply is cut."""
        return self.tokens * _TOKEN_CHARS


class Sampled(Struct, frozen=True):
    """A reply, and the model that wrote it. `is_cut`: it reached its limit."""

    text: str
    model: str
    is_cut: bool = False


def sampling_of(system: str | None, messages: Sequence[Mapping[str, Any]], tokens: int) -> Sampling:
    """Return a request. Raises ValueError, with the reason for the server."""
    if not messages or tokens < 1:
        raise ValueError("the request needs messages, and at least 1 token")
    parts = [(str(message.get("role")), "\n".join(_texts(message.get("content")))) for message in messages]
    text = parts[0][1] if len(parts) == 1 else "\n\n".join(f"[{role}]\n{text}" for role, text in parts)
    size = len(text) + len(system or "")
    if size > LONGEST_TEXT:
        raise ValueError(f"the request has {size:,} characters; the limit is {LONGEST_TEXT:,}")
    return Sampling(system or "", text, min(tokens, MOST_TOKENS))


def _texts(content: object) -> Iterator[str]:
    for block in cast("list[object]", content) if isinstance(content, list) else [content]:
        fields: Mapping[str, object] = cast("Mapping[str, object]", block) if isinstance(block, Mapping) else {}
        text = fields.get("text")
        if fields.get("type") != "text" or not isinstance(text, str):
            raise ValueError("the content of a message must be text")
        yield text


def question(wanted: Sampling, model: str) -> str:
    """Return what the user is asked, to follow the name of the server."""
    system = [_SYSTEM.format(text=wanted.system)] if wanted.system else []
    return _ASKED.format(model=model, tokens=wanted.tokens, text="\n\n".join([*system, wanted.text]))


def is_allowed(answer: FormAnswer) -> bool:
    """Return whether the user has allowed the request."""
    return answer.outcome == "accepted" and answer.values.get(ANSWER) == ALLOW
