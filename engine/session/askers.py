"""Everyone who can answer a session's questions: the program that opened it, and pages beside it.

All are asked at the same time. The first answer counts, and the other waits are cancelled, which withdraws the question
there. Whoever joins while a question waits is asked it, too. Used by `queue`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import anyio

from ..log.forms import Form, FormAnswer, Forms
from ..log.permissions import PermissionAnswer, PermissionQuestion, Permissions

_Answer = TypeVar("_Answer", PermissionAnswer, FormAnswer)


class Asker(Permissions, Forms, Protocol):
    """Asks a user both kinds of question."""


class Askers:
    """Asks everyone; `Permissions` and `Forms` of a session."""

    def __init__(self) -> None:
        self._permissions: Permissions | None = None
        self._forms: Forms | None = None
        self._others: list[Asker] = []
        self._waiting: list[Callable[[Asker], None]] = []
        """For each question that waits, what asks one more."""

    @property
    def permissions(self) -> Permissions | None:
        """Who is asked for permissions; None if there is nobody."""
        return self if self._permissions is not None or self._others else None

    @property
    def forms(self) -> Forms | None:
        """Who is asked for answers; None if there is nobody."""
        return self if self._forms is not None or self._others else None

    def attach(self, permissions: Permissions | None, forms: Forms | None) -> None:
        """Set those of the program that opened the session. They are asked from the next question on."""
        self._permissions, self._forms = permissions, forms

    def join(self, asker: Asker) -> None:
        """Ask this one too, also what waits already."""
        self._others.append(asker)
        for ask in self._waiting:
            ask(asker)

    def leave(self, asker: Asker) -> None:
        """Ask this one no more. What waits there already goes on."""
        self._others.remove(asker)

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Return the first answer."""
        first = None if self._permissions is None else partial(self._permissions.ask, question)
        return await self._first(first, lambda asker: asker.ask(question))

    async def fill(self, form: Form) -> FormAnswer:
        """Return the first answer."""
        first = None if self._forms is None else partial(self._forms.fill, form)
        return await self._first(first, lambda asker: asker.fill(form))

    async def _first(
        self, first: Callable[[], Awaitable[_Answer]] | None, ask: Callable[[Asker], Awaitable[_Answer]]
    ) -> _Answer:
        answers: list[_Answer] = []
        failures: list[Exception] = []
        async with anyio.create_task_group() as tasks:

            async def wait(answer: Callable[[], Awaitable[_Answer]]) -> None:
                # The task group would wrap an exception.
                try:
                    answers.append(await answer())
                except Exception as error:
                    failures.append(error)
                tasks.cancel_scope.cancel()

            def ask_also(asker: Asker) -> None:
                tasks.start_soon(wait, partial(ask, asker))

            self._waiting.append(ask_also)
            try:
                if first is not None:
                    tasks.start_soon(wait, first)
                for asker in self._others:
                    ask_also(asker)
                await anyio.sleep_forever()
            finally:
                self._waiting.remove(ask_also)
        if not answers:
            raise failures[0]
        return answers[0]
