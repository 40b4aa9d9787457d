"""The page of event kinds, `docs/events.md`: groups, kinds, fields, and the values of fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final, cast

import engine.core.execution
import engine.log.events.base
import engine.log.events.conversation
import engine.log.events.execution
import engine.log.events.going_back
import engine.log.events.nodes
import engine.log.events.session
from engine.context.tail.feed import LogNews
from engine.context.tail.prompt import Account
from engine.context.tail.sent_prompts import SentProjections
from engine.context.view import ViewFold
from engine.log.cycles import CycleFold
from engine.log.events import EVENTS, Event
from engine.log.facts import READING, Payloads, Readings, SessionFacts
from engine.log.rights import Domains
from engine.log.timeline import Timeline
from engine.session.guidance import KnownGuidance, KnownSurroundings
from engine.session.policy import Policy
from engine.session.saved_state import Revisions
from engine.session.tools.read import SeenFiles

from .source import Field, definitions, fields, meaning, prose

GROUPS = (
    engine.log.events.session,
    engine.log.events.conversation,
    engine.log.events.execution,
    engine.log.events.nodes,
    engine.log.events.going_back,
)
"""The modules of the groups, in reading order."""
_VALUES = (*GROUPS, engine.core.execution)
_READ_MODELS: Final[tuple[type[Any], ...]] = (
    Timeline,
    SessionFacts,
    Policy,
    ViewFold,
    CycleFold,
    Domains,
    SeenFiles,
    Revisions,
    Payloads,
    Readings,
    KnownGuidance,
    KnownSurroundings,
    SentProjections,
    Account,
    LogNews,
)
"""The folds that follow a session's log. One with `reset` follows the active path, any other the whole log."""
_HEAD = """\
# Events

*Generated from `engine/log/events/` by `make docs`. A test fails when it is out of date.*

Rewindow records everything that happens in a session as events on the session's log. Only the log survives the process.
An event is an immutable value, and its name is in the past tense. `EventLog.append` gives the event its number, its
time and its branch. The journal then writes it to disk. All other state of a session is computed from its events
([architecture](architecture.md)).

On disk and in an export, an event is one JSON object: `{"kind": ..., "v": ..., <fields>}`. `kind` never changes. `v`
increases when the meaning of a field changes. A program refuses an event of a later version. New fields have a default,
so older logs still load.

The *worker*, the process that runs statements, is untrusted. It may report only some kinds of events. If it reports
another kind, it is ended. The column *worker* marks the kinds that it may report.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_stamp(), *_index(), *_read_models(), *_groups(), *_values(), *_words()])


def _stamp() -> Iterator[str]:
    found = definitions(engine.log.events.base)["Event"]
    yield "## The stamp\n\nEvery event has these fields. The log sets them.\n"
    yield from _table(tuple(fields(cast("ast.ClassDef", found.node))), found.doc)


def _index() -> Iterator[str]:
    yield "## All kinds\n\n| kind | class | group | v | worker |\n| --- | --- | --- | --- | --- |"
    for kind in EVENTS:
        group = kind.__module__.rpartition(".")[2]
        worker = "yes" if kind.from_worker else ""
        yield f"| [`{kind.kind}`](#{kind.kind}) | `{kind.__name__}` | {group} | {kind.v} | {worker} |"
    yield ""


def _read_models() -> Iterator[str]:
    yield "## Read models\n\nA *read model* is state that is computed from the log."
    yield "The table lists the kinds of events that each one reads.\n"
    yield "| class | module | follows | of these kinds | contents |\n| --- | --- | --- | --- | --- |"
    for model in _READ_MODELS:
        wanted = READING if model is Readings else getattr(model, "FOLLOWS", None)
        kinds = "all" if wanted is None else ", ".join(f"`{kind.kind}`" for kind in EVENTS if kind in wanted)
        scope = "the active path" if hasattr(model, "reset") else "the whole log"
        contents = re.split(r"\.\s", f"{model.__doc__} ", maxsplit=1)[0]
        module = model.__module__.removeprefix("engine.").replace(".", "/")
        yield f"| `{model.__name__}` | `{module}` | {scope} | {kinds} | {' '.join(contents.split())} |"
    yield ""


def _groups() -> Iterator[str]:
    for module in GROUPS:
        path = module.__name__.replace(".", "/") + ".py"
        yield f"## Group `{module.__name__.rpartition('.')[2]}`\n\n`{path}`. {prose(module.__doc__ or '')}\n"
        for kind in EVENTS:
            if kind.__module__ == module.__name__:
                yield from _kind(kind, module)


def _kind(kind: type[Event], module: ModuleType) -> Iterator[str]:
    found = definitions(module)[kind.__name__]
    reporter = " The worker may send this event." if kind.from_worker else ""
    yield f"### {kind.kind}\n\n`{kind.__name__}`, version {kind.v}.{reporter} {prose(found.doc)}\n"
    yield from _table(tuple(fields(cast("ast.ClassDef", found.node))), found.doc)


def _table(rows: tuple[Field, ...], doc: str) -> Iterator[str]:
    if not rows:
        yield "No further fields.\n"
        return
    yield "| field | type | default | meaning |\n| --- | --- | --- | --- |"
    for row in rows:
        default = "" if row.default is None else f"`{row.default}`"
        yield f"| `{row.name}` | `{row.type.replace('|', chr(92) + '|')}` | {default} | {meaning(doc, row.name)} |"
    yield ""


def _values() -> Iterator[str]:
    """The structures inside events, nested ones included."""
    yield "## Values inside events\n\nThese structures are stored inside an event.\n"
    kinds = {kind.__name__ for kind in EVENTS}
    for module in _VALUES:
        for name, found in definitions(module).items():
            if isinstance(found.node, ast.ClassDef) and name not in kinds:
                yield f"### {name}\n\n{prose(found.doc)}\n"
                yield from _table(tuple(fields(found.node)), found.doc)


def _words() -> Iterator[str]:
    """The allowed words of restricted text fields, and the names of identifiers."""
    yield "## Words\n\nA field of such a type has one of the values in its row.\n\n| type | words |\n| --- | --- |"
    for module in _VALUES:
        for name, found in definitions(module).items():
            if isinstance(found.node, ast.Assign) and ast.unparse(found.node.value).startswith("Literal["):
                words = ", ".join(f"`{word}`" for word in re.findall(r"'([^']*)'", ast.unparse(found.node.value)))
                yield f"| `{name}` | {words} |"
    yield "\n## Identifiers\n\nIdentifiers are text. Only `Seq` is a number.\n"
    identifiers = definitions(import_module("engine.core.ids"))
    for name, found in identifiers.items():
        if "NewType" in found.text:
            yield f"- `{name}`" + (f": {' '.join(found.doc.split())}" if found.doc else "")
    yield ""
