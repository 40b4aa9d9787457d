"""`/model` and `/cost`: choose the model of the session, and show what its calls took."""

from __future__ import annotations

from typing import Final

from ...context.models import MODELS
from ...core.errors import InvalidRequestError
from ...core.text import code_span, more, plural
from ...log.facts import Spent
from ..model_choice import MODEL, THINKING, THINKING_LEVELS, ModelChoice
from . import CommandContext

NO_MODEL: Final = "no model {name!r} is offered; name another one as PROVIDER:MODEL, such as openai:{name}"
NO_LEVEL: Final = "there is no thinking level {level!r}; it is one of {levels}, and the model is unchanged"
NO_LEVELS: Final = "{name} cannot be told how much to think, so nothing is changed"
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
        f"`/model NAME` chooses one, `/model NAME LEVEL` also how much it thinks: {', '.join(THINKING_LEVELS)}.",
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
