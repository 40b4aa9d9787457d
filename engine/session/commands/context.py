"""What a model reads, which one, what its calls took, and what it may do: `/context`, `/model`, `/cost`, `/sandbox`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...context.models import MODELS
from ...context.tail.rights import entered_sentence
from ...core.errors import InvalidRequestError
from ...core.text import code_span, fenced, more, plural, printable
from ...log.events.nodes import NodesTicked, TickApplied
from ...log.events.session import DomainEntered, ProjectionSent
from ...log.facts import Spent
from ..model_calls.context_text import ALL, breakdown_text, views_text
from ..model_calls.projector import Projection
from ..model_choice import MODEL, THINKING, THINKING_LEVELS, ModelChoice
from . import CommandContext, Reading, answer_of

TAIL: Final = "tail"
"""The argument of `/context` that shows the whole tail."""
_TAIL_LINES: Final = 16
_FORESEEN: Final = 12
_NO_TAIL: Final = "The next prompt has no last part: there are no handles and no changes."
_NO_SUCH_VIEWS: Final = f"`/views` lists the newest handles, `/views {ALL}` all handles."
_NOT_YET: Final = "The next prompt is not known yet; ask again when the turn has ended."

NOTHING_SANDBOXED: Final = "No model statement has run yet, so nothing is sandboxed."


def sandbox_glance(context: CommandContext, _argument: str) -> str:
    entered = (event for event in reversed(context.runtime.parts.log.path) if isinstance(event, DomainEntered))
    return next(map(entered_sentence, entered), NOTHING_SANDBOXED)


async def context(context: CommandContext, argument: str) -> str:
    if argument and argument != TAIL:
        return await answer_of(_past(context, argument))
    projection = await context.runtime.project()
    changes = () if argument else await context.runtime.foresee()
    names = {row.obj_id: row.name for row in projection.handles}
    foreseen = _foreseen([(names.get(item.obj_id, item.obj_id), item.text) for item in changes])
    return _present(context, projection, argument, foreseen)


def context_glance(context: CommandContext, argument: str) -> str | Reading:
    if argument and argument != TAIL:
        return _past(context, argument)
    latest = context.runtime.projector.latest
    return f"{context.as_of}\n\n{_present(context, latest, argument)}" if latest else _NOT_YET


def _present(context: CommandContext, projection: Projection, argument: str, foreseen: Sequence[str] = ()) -> str:
    """The next prompt, and how to show earlier ones."""
    tail = projection.prompt.tail
    if argument == TAIL:
        return "\n\n".join(_last_part("The last part of the next prompt:", tail)) or _NO_TAIL
    number = len(context.runtime.sent.calls)
    first = next((f", from `{name}` on," for name in projection.tail_sections), "")
    return "\n\n".join(
        (
            breakdown_text("The next model call would send", context.runtime.calls.breakdown(projection)),
            *foreseen,
            *_last_part(
                f"The last part{first} changes with each call, and ends the newest message. Its current content:",
                tail,
                f"; `/context {TAIL}` shows them",
            ),
            f"`/context {number}` shows the prompt of model call {number}, the last one."
            if number
            else "No model has been called in this session.",
        )
    )


def _foreseen(changes: Sequence[tuple[str, str]]) -> Sequence[str]:
    """The changes that the next tick will find, which are not in the prompt yet."""
    if not changes:
        return ()
    lines = [f"- {code_span(name)}: {printable(line)}" for name, line in changes[:_FORESEEN]]
    rest = [more(len(changes) - _FORESEEN, "handle")] if len(changes) > _FORESEEN else []
    heading = "Not included yet: changes since the last tick. Your next prompt adds them; `/tick` adds them now:"
    return (heading, "\n".join([*lines, *rest]))


def _past(context: CommandContext, argument: str) -> str | Reading:
    call = context.runtime.sent.numbered(argument)
    if call is None:
        return (
            f"{context.runtime.sent.without(argument)} `/context` shows the next prompt, `/context {TAIL}` its last "
            "part."
        )
    calls, number = context.runtime.calls, context.runtime.sent.number_of(call)
    spent = breakdown_text(f"Model call {number}, {_when(context, call)}, sent", calls.breakdown_of(call))
    heading = "The last part of this prompt, at the end of its newest message:"
    shell = f"`rewindow show {context.runtime.parts.session_id} --projection {number}`"

    def reading() -> str:
        tail = calls.text(call.tail) if call.tail is not None else ""
        return "\n\n".join(
            (
                spent,
                *_last_part(heading, tail, "; the command below prints them"),
                f"In a shell, {shell} prints the whole prompt.",
            )
        )

    return reading


def _when(context: CommandContext, call: ProjectionSent) -> str:
    if not context.runtime.parts.log.branches.holds(call):
        return f"on branch {code_span(printable(call.branch_id))}"
    cells = reversed(context.cells)
    last = next((cell for cell in cells if cell.finished and cell.finished.seq < call.position), None)
    return f"after statement {last.statement.index}" if last else "before the first statement"


def _last_part(heading: str, tail: str, where: str | None = None) -> Sequence[str]:
    """The tail below a heading. If it is cut, a line counts the missing lines and says `where` they are."""
    if not tail:
        return ()
    lines = tail.splitlines()
    if where is None or len(lines) <= _TAIL_LINES + 1:
        return heading, fenced(tail)
    return heading, fenced("\n".join(lines[:_TAIL_LINES])), f"{more(len(lines) - _TAIL_LINES, 'line')}{where}."


async def views(context: CommandContext, argument: str) -> str:
    if argument and argument != ALL:
        return _NO_SUCH_VIEWS
    return views_text((await context.runtime.project()).handles, is_whole=argument == ALL)


def views_glance(context: CommandContext, argument: str) -> str:
    if argument and argument != ALL:
        return _NO_SUCH_VIEWS
    latest = context.runtime.projector.latest
    return f"{context.as_of}\n\n{views_text(latest.handles, is_whole=argument == ALL)}" if latest else _NOT_YET


async def tick(context: CommandContext, _: str) -> str:
    """A line for each handle that changed. The events show the differences."""
    events = await context.runtime.tick()
    changed = [event for event in events if isinstance(event, TickApplied) and event.delta]
    if changed:
        names = await context.runtime.handle_names()
        lines = [f"- {code_span(names.get(event.obj_id, event.obj_id))}: {printable(event.delta)}" for event in changed]
        return "\n".join(["These handles are up to date now; the model gets the changes with its next call:", *lines])
    running = sum(event.nodes for event in events if isinstance(event, NodesTicked))
    if not running:
        return "No handle follows its file; `/run NAME.Run()` makes a handle follow its file."
    return f"No changes: {running} {plural(running, 'handle')} {'is' if running == 1 else 'are'} up to date."


async def compact(context: CommandContext, _: str) -> str:
    compacted = await context.runtime.compact()
    if compacted is None:
        return "The conversation is too short to summarize."
    cut, used = compacted
    number = len(cut.positions)
    return (
        f"{number:,} {plural(number, 'message')} ({cut.tokens:,} tokens) {'was' if number == 1 else 'were'} "
        "replaced by a summary. "
        f"The next prompt has {used:,} tokens."
    )


NO_MODEL: Final = "model {name!r} is not in the list; write a model as PROVIDER:MODEL, such as openai:{name}"
NO_LEVEL: Final = "there is no thinking level {level!r}; use one of {levels}. The model is unchanged"
NO_LEVELS: Final = "the thinking level of {name} cannot be set, so nothing is changed"
_MOST: Final = 40
"""The most models in a list."""


def model_glance(context: CommandContext, argument: str) -> str:
    name, _, level = argument.partition(" ")
    choice = context.runtime.parts.model
    rows = {row.name: row for row in choice.rows}
    if MODEL not in rows:
        return "This program brings its own model, which cannot be changed."
    try:
        if name in THINKING_LEVELS and not level:
            name, level = "", name
        spec = _spec(name, rows[MODEL].values) if name else choice.spec
        _check_level(level.strip(), spec, choice)
        if name:
            choice.set(MODEL, spec)
        if level:
            choice.set(THINKING, level.strip())
    except InvalidRequestError as error:
        return f"{error}. `/model` lists the models."
    can_think = any(row.name == THINKING for row in choice.rows)
    thinks = f", thinking: {choice.thinking}" if can_think and choice.thinking != "default" else ""
    if argument:
        return f"From the next call on, {code_span(choice.spec)} answers{thinks}."
    return "\n".join([f"{code_span(choice.spec)} answers{thinks}. You can choose:", *_list(rows[MODEL].values)])


def _check_level(level: str, spec: str, choice: ModelChoice) -> None:
    """Check a level before the model is set, so that a refusal changes nothing. Raises InvalidRequestError."""
    if level and not any(row.name == THINKING for row in choice.rows_of(spec)):
        raise InvalidRequestError(NO_LEVELS.format(name=spec))
    if level and level not in THINKING_LEVELS:
        raise InvalidRequestError(NO_LEVEL.format(level=level, levels=", ".join(THINKING_LEVELS)))


def _spec(name: str, offered: dict[str, str]) -> str:
    """Return the model that a person means: a name, a name without `provider:`, or the only one with this ending.

    Raises InvalidRequestError for a name that cannot be one.
    """
    if name in offered:
        return name
    endings = [spec for spec in offered if spec.endswith(f":{name}")]
    if len(endings) == 1:
        return endings[0]
    kind = name.partition(":")[0]
    if kind not in MODELS and ":" not in name:
        raise InvalidRequestError(NO_MODEL.format(name=name))
    return name if ":" not in name or kind in ("provider", "scripted") else f"provider:{name}"


def _list(offered: dict[str, str]) -> list[str]:
    lines = [
        f"- {code_span(spec)}" + (f": {title}" if not spec.endswith(title) else "")
        for spec, title in list(offered.items())[:_MOST]
    ]
    rest = [f"- {more(len(offered) - _MOST, 'model')}"] if len(offered) > _MOST else []
    return [
        *lines,
        *rest,
        "",
        "`/model NAME` chooses a model, and `/model NAME LEVEL` also its thinking level: "
        f"{', '.join(THINKING_LEVELS)}.",
    ]


def cost_glance(context: CommandContext, _argument: str) -> str:
    spending = context.runtime.parts.spending
    if not spending.total.calls:
        return "No model has been called in this session."
    rows = [
        f"- {code_span(name) if name else 'unnamed models'}: {_spent(spent)}"
        for name, spent in spending.by_model.items()
    ]
    total = [] if len(rows) == 1 else [f"- in all: {_spent(spending.total)}"]
    return "\n".join(["Model calls of this session, on all branches:", *rows, *total])


def _spent(spent: Spent) -> str:
    cached = f" ({spent.cached_tokens:,} from a cache)" if spent.cached_tokens else ""
    tokens = (
        f"{spent.input_tokens:,} {plural(spent.input_tokens, 'token')} read{cached}, {spent.output_tokens:,} written"
    )
    return f"{spent.calls:,} {plural(spent.calls, 'call')}, {tokens}, {_price(spent)}"


def _price(spent: Spent) -> str:
    if spent.unpriced == spent.calls:
        return "price unknown"
    rest = f" and {spent.unpriced:,} of unknown price" if spent.unpriced else ""
    return f"${spent.dollars:,.4f}{rest}"
