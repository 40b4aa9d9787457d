"""`/cost`: what the model calls of the session took."""

from __future__ import annotations

from ...core.text import code_span, plural
from ...log.spending import Spent
from . import CommandContext


def cost_glance(context: CommandContext, _argument: str) -> str:
    spending = context.runtime.parts.spending
    if not spending.total.calls:
        return "No model has been called in this session."
    rows = [
        f"- {code_span(name) if name else 'unnamed models'}: {_text(spent)}"
        for name, spent in spending.by_model.items()
    ]
    total = [] if len(rows) == 1 else [f"- in all: {_text(spending.total)}"]
    return "\n".join(["Model calls of this session, on all branches:", *rows, *total])


def _text(spent: Spent) -> str:
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
