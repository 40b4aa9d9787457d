"""What model calls took, by model: calls, tokens and money, on all branches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from .events import Event
from .events.session import ModelCallEnded


class Spent(Struct, frozen=True):
    """What some calls took, in the provider's tokens. `dollars` are those of the calls with a known price.

    `unpriced` calls have none.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def with_call(self, call: ModelCallEnded) -> Spent:
        """Return the sum with another call."""
        return replace(
            self,
            calls=self.calls + 1,
            input_tokens=self.input_tokens + (call.input_tokens or 0),
            cached_tokens=self.cached_tokens + (call.cached_tokens or 0),
            output_tokens=self.output_tokens + (call.output_tokens or 0),
            dollars=self.dollars + (call.dollars or 0.0),
            unpriced=self.unpriced + (call.dollars is None),
        )


class Spending:
    """Adds up what the calls of a session took. Only the log calls `apply`."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ModelCallEnded,))

    def __init__(self) -> None:
        self._by_model: dict[str, Spent] = {}
        self.total = Spent()

    def apply(self, event: Event) -> None:
        if isinstance(event, ModelCallEnded):
            self.total = self.total.with_call(event)
            self._by_model[event.model] = self._by_model.get(event.model, Spent()).with_call(event)

    @property
    def by_model(self) -> Mapping[str, Spent]:
        """What each model took; "" stands for calls of earlier versions, which did not name theirs."""
        return self._by_model
