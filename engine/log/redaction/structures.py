"""Redaction of values with fields: events, what they consist of, and JSON.

Texts are taken by what they are declared to be. A field of the type `str` is text. Identifiers (`ids`), literals and
fields of the type `text.Exact` are looked up or compared by somebody and stay: a secret may have the value `completed`,
and what is a word of ours there must stay one. Keys of mappings and names that user code makes up (`text.Named`) stay
as long as they are words, such as `tool_call_id`. What is declared as `object` is JSON from elsewhere, and all its
strings are text.

Two kinds hold what a rebuild needs exactly: the source of a statement, and the answer to an effect. Where such a text
loses a secret, the event says so and carries the digest of what it was (`withheld`). A provider's signature covers its
text, so a text that changes loses it. Called by `EventLog` through the composition, by imports and exports.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.execution import Captured
from ...core.text import Named
from ..events import Event
from ..events.codec import encode
from ..events.conversation import AgentReasoning, ThinkingBlock
from ..events.execution import CommandEnded, EffectAnswered, ExecutionFinished, StatementRecorded
from .redactor import Redactor

T = TypeVar("T", bound=Struct)
Walk = Callable[[Redactor, Any], Any]
"""From a value to the same without secrets: the value itself where it holds none."""
_WORD: Final = re.compile(r"[A-Za-z_.]*")
_NOTHING: Final[Collection[str]] = ()


def redact_event(redactor: Redactor, event: Event) -> Event:
    """The event with every known value replaced in all its texts; the event itself where there is none."""
    if not redactor or not (redactor.may_change(encode(event)) or _is_cut(event)):
        return event
    return cast("Event", _struct(redactor, event))


def redact_struct(redactor: Redactor, value: T) -> T:
    """The structure with every known value replaced in all its texts; the structure itself where there is none."""
    return cast("T", _struct(redactor, value)) if redactor else value


def redact_json(redactor: Redactor, value: Any, exact: Collection[str] = _NOTHING) -> Any:
    """A JSON value without secrets; keys that are words stay, and what stands under a key of `exact`."""
    match value:
        case str():
            return redactor.redact(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {
                _name(redactor, key): item if key in exact else redact_json(redactor, item, exact)
                for key, item in items
            }
        case list() | tuple():
            return [redact_json(redactor, item, exact) for item in cast("list[Any]", value)]
        case _:
            return value


def withheld(data: bytes) -> str:
    """What stands for content that is not kept: the digest of it. Not one that a store would look for."""
    from hashlib import blake2b  # here, because it loads OpenSSL, which costs a start-up 2 ms

    return f"blake2b:{blake2b(data, digest_size=20).hexdigest()}"


def _is_cut(event: Event) -> bool:
    match event:
        case ExecutionFinished(stdout=first, stderr=second) | CommandEnded(output=first, errors=second):
            return first.truncated or second.truncated
        case _:
            return False


# --- structures -------------------------------------------------------------------------------------------------------


def _struct(redactor: Redactor, value: Struct) -> Struct:
    changed = {
        name: clean
        for name, walk in _walks(type(value))
        if (clean := walk(redactor, before := getattr(value, name))) is not before and clean != before
    }
    return replace(value, **changed, **_consequences(value, changed)) if changed else value


def _consequences(value: Struct, changed: dict[str, Any]) -> dict[str, Any]:
    """What else changes where texts did."""
    match value:
        case StatementRecorded() if "source" in changed:
            return {"withheld": withheld(value.source.encode("utf-8", "surrogatepass"))}
        case EffectAnswered() if "error" in changed:
            return {"withheld": withheld(msgspec.json.encode(value.error))}
        case ThinkingBlock() | AgentReasoning() if "text" in changed:
            return {"signature": None}
        case _:
            return {}


def _captured(redactor: Redactor, value: Captured) -> Captured:
    # What is cut here is cut in bytes, and no word in the text says so.
    text = redactor.redact(value.text, is_cut=value.truncated)
    return value if text is value.text else replace(value, text=text)


def _items(walk: Walk) -> Walk:
    return lambda redactor, values: tuple(walk(redactor, value) for value in values)


def _values(walk: Walk) -> Walk:
    return lambda redactor, values: {_name(redactor, key): walk(redactor, value) for key, value in values.items()}


def _as_it_is(_redactor: Redactor, value: object) -> object:
    return value


def _name(redactor: Redactor, name: str) -> str:
    """A name without a secret in it; a word is none, because it may be one of ours."""
    return name if _WORD.fullmatch(name) or not redactor.holds(name) else redactor.redact(name)


def _either(redactor: Redactor, value: object) -> object:
    match value:
        case str():
            return redactor.redact(value)
        case Struct():
            return _struct(redactor, value)
        case _:
            return value


@cache
def _walks(kind: type[Struct]) -> tuple[tuple[str, Walk], ...]:
    """The fields of a structure that may hold text, each with how it is walked."""
    hints = get_type_hints(kind, include_extras=True)
    walks = ((name, _walk_of(hints[name])) for name in kind.__struct_fields__)
    return tuple((name, walk) for name, walk in walks if walk is not None)


def _walk_of(hint: Any) -> Walk | None:
    """How a value of the type is walked; None for one that holds no text."""
    if hint == Named:
        return _name
    if hint is str or hint is object:
        return Redactor.redact if hint is str else redact_json
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either if any(map(_walk_of, arguments)) else None
    if origin is tuple:
        inner = _walk_of(arguments[0])
        return inner and _items(inner)
    if origin is dict:
        return _values(_walk_of(arguments[1]) or _as_it_is)
    if hint is Captured:
        return _captured
    return _struct if isinstance(hint, type) and issubclass(hint, Struct) else None
