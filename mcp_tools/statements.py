"""The one statement of Python that a call is recorded as: names and literals, so that arguments never become code.

Pure. A name is checked to be one before it gets here (`handles.identifier`); whatever else a client gave stands in
the source as a literal, which Python's own `repr` writes. `called` says how `view`, `group` and `show` are to be
written: Python that a client ran may have bound these names to something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Literal = str | int
Called = Callable[[str], str]
Member = tuple[str, bool]
"""Something that a group is to hold: a handle's name, or with True a path or glob."""


def opening(
    name: str,
    path: str,
    *,
    pos: Literal | None = None,
    tokens: int | None = None,
    lod: int | None = None,
    follow: bool = False,
    replaces: bool = False,
    called: Called = str,
) -> str:
    """Binds `name` to a new view, whose render is the statement's result.

    One that `replaces` the handle of that name takes its place in groups, and leaves it as it is where there is nothing
    to show: then the statement raises.
    """
    given: dict[str, Literal | None] = {"pos": pos, "tokens": tokens, "lod": lod, "freq": "Sync" if follow else None}
    named = [f"{key}={_literal(value)}" for key, value in given.items() if value is not None]
    named += [f"instead={name}"] if replaces else []
    return f"{name} = {called('view')}({', '.join([_literal(path), *named])})"


def showing(
    name: str,
    *,
    refresh: bool = False,
    pos: Literal | None = None,
    scroll: int | None = None,
    tokens: int | None = None,
    lod: int | None = None,
    follow: bool | None = None,
    called: Called = str,
) -> str:
    """Does what was asked to a view that is there, and shows it. What can be refused comes first."""
    steps = [
        "Refresh()" if refresh else "",
        "" if pos is None else f"SetPos({_literal(pos)})",
        "" if scroll is None else f"Scroll({_literal(scroll)})",
        *_policy(tokens, lod),
        "" if follow is None else "Run()" if follow else "Pause()",
    ]
    return _shown(name, steps, called)


def grouping(
    name: str,
    members: Iterable[Member],
    *,
    tokens: int | None = None,
    lod: int | None = None,
    called: Called = str,
) -> str:
    """Binds `name` to a new group, whose summary is the statement's result."""
    given = {"tokens": tokens, "lod": lod}
    named = [f"{key}={_literal(value)}" for key, value in given.items() if value is not None]
    return f"{name} = {called('group')}({', '.join([*map(_member, members), *named])})"


def regrouping(
    name: str,
    *,
    add: Sequence[Member] = (),
    remove: Sequence[Member] = (),
    tokens: int | None = None,
    lod: int | None = None,
    called: Called = str,
) -> str:
    """Changes what a group holds, and shows it."""
    steps = [
        f"Add({', '.join(map(_member, add))})" if add else "",
        f"Remove({', '.join(map(_member, remove))})" if remove else "",
        *_policy(tokens, lod),
    ]
    return _shown(name, steps, called)


def closing(name: str, groups: Iterable[str] = ()) -> str:
    """Lets go of a handle, which leaves these groups."""
    return "; ".join([*(f"{group}.Remove({name})" for group in groups), f"del {name}"])


def _policy(tokens: int | None, lod: int | None) -> list[str]:
    return [
        "" if tokens is None else f"SetTokens({_literal(tokens)})",
        "" if lod is None else f"SetLod({_literal(lod)})",
    ]


def _shown(name: str, steps: Iterable[str], called: Called) -> str:
    return f"{called('show')}({'.'.join([name, *filter(None, steps)])})"


def _member(member: Member) -> str:
    text, is_text = member
    return _literal(text) if is_text else text


def _literal(value: Literal) -> str:
    return repr(value)
