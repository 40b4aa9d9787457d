"""The requests about kept values: what they need of an interpreter beyond `keeping`, which is loaded with the first.

Loading runs code of the statements', so it is over when Python is the worker's own again, and what it bound is no
change of the next statement's. Must not know pickles. Used by `interpreter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...log.past import ValueGroup
from .interrupts import Interrupts
from .namespaces.namespace import NamespaceWatch
from .protocol import Collect, Kept, Pickled, Preserve, SetValues, ValuesSet
from .statements.own_python import OwnPython

if TYPE_CHECKING:
    from .keeping.keeper import Keeper


class Values:
    """The values of one namespace.

    `keeper` makes what keeps them, when it is first needed. `let_go` ends what was left unreachable.
    """

    def __init__(
        self,
        keeper: Callable[[], Keeper],
        watch: NamespaceWatch,
        interrupts: Interrupts,
        python: OwnPython,
        let_go: Callable[[], None],
    ) -> None:
        self._make = keeper
        self._made: Keeper | None = None
        self._watch = watch
        self._interrupts = interrupts
        self._python = python
        self._let_go = let_go

    def answer(self, request: Preserve | Collect | SetValues) -> Pickled | ValuesSet:
        """The reply to send."""
        keeper = self._keeper()
        match request:
            case Preserve(large=large):
                self._interrupts.install()
                return keeper.preserve(large)
            case Collect():
                return keeper.collect()
            case SetValues(groups=groups, delete=delete):
                return ValuesSet(self._set(keeper, groups, delete))

    def kept(self, execution_id: str) -> Kept:
        """What an execution changed, as far as it is kept at once. An interrupt that comes late leaves the rest."""
        self._interrupts.install()
        groups, unkept, left = self._keeper().preserve_at_once()
        return Kept(execution_id=execution_id, groups=groups, unkept=unkept, left=left)

    def _keeper(self) -> Keeper:
        if self._made is None:
            self._made = self._make()
        return self._made

    def put(self, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]:
        """Binds these names to what was kept of them and deletes those; the names that failed, with the reasons."""
        return self._set(self._keeper(), groups, delete)

    def take_place(self) -> None:
        """This process has taken the worker's place."""
        if self._made is not None:
            self._made.leave_children()

    def settle(self, anew: Iterable[str], values: Iterable[object]) -> None:
        """A history has run again, with these values in the end: what has changed is kept already, but for `anew`."""
        self._watch.changed(anew)
        made = [value for value in tuple(values) if issubclass(type(value), type)]
        if made:
            self._keeper().made_again(made)

    def _set(self, keeper: Keeper, groups: Sequence[ValueGroup], delete: Sequence[str]) -> dict[str, str]:
        self._interrupts.install()
        try:
            self._watch.before_setting(name for group in groups for name in group.names)
            failures = keeper.put(groups, delete)
            with suppress(BaseException), self._interrupts.armed():
                self._watch.after()
            with suppress(BaseException), self._interrupts.armed():
                self._let_go()
        finally:
            self._python.take_over()
        return failures
