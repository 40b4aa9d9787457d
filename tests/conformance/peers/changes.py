"""Changes that turn a conforming peer into a defect: what it sends, accepts, answers or survives.

Each takes the conforming class first. A peer has `send`, `take`, `take_line`, `answer`, `refuse` and `world`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Peer = type[Any]
Match = Callable[[Any, Message], bool]
Edit = Callable[[Message], object]


def changed(base: Peer, name: str, does: Callable[..., object]) -> Peer:
    """Replace a method: `does` takes the peer, the usual method and the arguments."""

    class Changed(base):
        pass

    def method(self: Any, *given: Any, **named: Any) -> object:
        return does(self, getattr(super(Changed, self), name), *given, **named)

    setattr(Changed, name, method)
    return Changed


def preceded(base: Peer, name: str, does: Callable[[Any], object]) -> Peer:
    """Do something before a method."""

    def method(peer: Any, usual: Callable[..., object], *given: Any) -> object:
        does(peer)
        return usual(*given)

    return changed(base, name, method)


def delayed(base: Peer, name: str) -> Peer:
    """Run a method a little later."""
    return changed(base, name, lambda peer, usual, *given: peer.world.later(0.01, lambda: usual(*given)))


def leave_process(peer: Any) -> None:
    peer.world.left = 1


def take_whole_writes(_: Any, usual: Callable[[bytes], object], data: bytes) -> None:
    """Ignore writes that are no whole lines."""
    if data.endswith(b"\n") and data.startswith((b"{", b"\xef", b"[", b"\n", b" ", b"\r", b"5", b'"', b"n")):
        usual(data)


def rewrite(base: Peer, match: Match, edit: Edit) -> Peer:
    """Change matching outgoing messages."""

    class Rewriting(base):
        def send(self, message: Message) -> None:
            if match(self, message):
                message = copy.deepcopy(message)
                edit(message)
            super().send(message)

    return Rewriting


def drop(base: Peer, match: Match) -> Peer:
    """Drop matching outgoing messages."""

    class Dropping(base):
        def send(self, message: Message) -> None:
            if not match(self, message):
                super().send(message)

    return Dropping


def followed(base: Peer, match: Match, more: Callable[[Any, Message], list[Message]]) -> Peer:
    """Send more after matching messages."""

    class Following(base):
        def send(self, message: Message) -> None:
            super().send(message)
            if match(self, message):
                for one in more(self, message):
                    super().send(one)

    return Following


def refuse(base: Peer, match: Match, code: int = -32603) -> Peer:
    """Answer matching requests with an error."""

    class Refusing(base):
        def take(self, message: Message) -> None:
            if match(self, message):
                self.refuse(message, code, "Refused")
            else:
                super().take(message)

    return Refusing


def grant(base: Peer, match: Match, given: Any) -> Peer:
    """Answer matching requests with a result, and do nothing."""

    class Granting(base):
        def take(self, message: Message) -> None:
            if match(self, message):
                self.answer(message, given(self) if callable(given) else given)
            else:
                super().take(message)

    return Granting


def ignore(base: Peer, match: Match) -> Peer:
    """Ignore matching requests."""

    class Ignoring(base):
        def take(self, message: Message) -> None:
            if not match(self, message):
                super().take(message)

    return Ignoring


def dies(base: Peer, at: Callable[[bytes], bool]) -> Peer:
    """Exit at matching lines."""

    class Dying(base):
        def take_line(self, line: bytes) -> None:
            if at(line):
                self.world.exit(1)
            else:
                super().take_line(line)

    return Dying


def deaf(base: Peer, to: Callable[[bytes], bool]) -> Peer:
    """Ignore matching lines."""

    class Deaf(base):
        def take_line(self, line: bytes) -> None:
            if not to(line):
                super().take_line(line)

    return Deaf


def put(path: str, value: Any) -> Edit:
    """Set the value at a path of keys and indices."""

    def edit(message: Message) -> None:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        node: Any = message
        for key in way:
            node = node[key]
        node[last] = value

    return edit


def cut(path: str) -> Edit:
    """Remove the value at a path of keys."""

    def edit(message: Message) -> None:
        *way, last = path.split(".")
        node: Any = message
        for key in way:
            node = node[key]
        node.pop(last, None)

    return edit
