"""A model that cannot be used: every reply fails with the sentence that says why. What works without one goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..model_protocol import ModelSignal, ModelUnusableError, Prompt


class UnusableModel:
    """Takes the place of a model that the settings name and that there is not."""

    summarizes = False

    def __init__(self, name: str, sentence: str) -> None:
        self.name = name
        self._sentence = sentence

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Raises ModelUnusableError, always."""
        raise ModelUnusableError(self._sentence)
        yield  # because a reply is a generator

    async def aclose(self) -> None:
        """Nothing is open."""
