"""A model for tests that answers from a function and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from engine.context.model import ModelSignal, Prompt, ReplyEnded, StatementAsked, TextDelta
from engine.core.pictures import PictureRule

Answer = Callable[[Prompt], Sequence[ModelSignal]]


class AnsweringModel:
    """Calls `answer` with each prompt that is no request for a summary, `sum_up` with each that is."""

    name = "answering"
    calls_tools = True

    def __init__(self, answer: Answer, sum_up: Answer | None = None) -> None:
        self._answer = answer
        self._sum_up = sum_up
        self.summarizes = sum_up is not None
        self.prompts: list[Prompt] = []
        self.summary_prompts: list[Prompt] = []
        self.closes = 0

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        asked, answer = (self.prompts, self._answer) if prompt.statements else (self.summary_prompts, self._sum_up)
        assert answer is not None
        asked.append(prompt)
        signals = answer(prompt)
        for signal in signals:
            yield signal
        if not any(isinstance(signal, ReplyEnded) for signal in signals):
            yield ReplyEnded()

    async def aclose(self) -> None:
        """Counts how often it was closed."""
        self.closes += 1


def says(text: str) -> Answer:
    return lambda _: [TextDelta(text)]


def runs(*sources: str, typed: bool = True) -> Answer:
    """Runs one statement after the other, one in each reply, then says that it is done. `typed`: by a person."""
    left = list(sources)
    return lambda _: [StatementAsked(left.pop(0), typed=typed)] if left else [TextDelta("Done.")]


@dataclass(slots=True)
class Reads:
    """A model that prompts are written for; it may change between prompts, as a session's may."""

    spec: str = "one"
    calls_tools: bool = True
    window: int | None = None
    picture_rule: PictureRule | None = None
