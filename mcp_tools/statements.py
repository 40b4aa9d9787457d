"""Builds the one Python statement that records a call: names and literals only, so arguments never become code.

Pure. `client_session.to_identifier` validates names before they get here. Python's own `repr` writes every other
argument as a literal. `builtin` returns how to write `view`, `group` and `show`, because Python that a client ran may
have rebound these names. Used by the tools that open and change handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Literal = str | int
Builtin = Callable[[str], str]
Member = tuple[str, bool]
"""A group member: a handle's name, or with True a path or glob."""


def opening(
    name: str,
    path: str,
    *,
    pos: Literal | None = None,
    tokens: int | None = None,
    lod: int | None = None,
    follow: bool = False,
    replaces: bool = False,
    builtin: Builtin = str,
) -> str:
    """Bind `name` to a new view and show it.

    With `replaces` the new view takes the place of the handle `name`, in groups too. If the new view has nothing to
    show, the statement raises and leaves the old handle unchanged.
    """
    given: dict[str, Literal | None] = {"pos": pos, "tokens": tokens, "lod": lod, "freq": "Sync" if follow else None}
    named = [f"{key}={_literal(value)}" for key, value in given.items() if value is not None]
    named += [f"instead={name}"] if replaces else []
    return f"{name} = {builtin('view')}({', '.join([_literal(path), *named])})"


def showing(
    name: str,
    *,
    refresh: bool = False,
    pos: Literal | None = None,
    scroll: int | None = None,
    tokens: int | None = None,
    lod: int | None = None,
    follow: bool | None = None,
    builtin: Builtin = str,
) -> str:
    """Change an open view and show it. Steps that can fail come first."""
    steps = [
        "Refresh()" if refresh else "",
        "" if pos is None else f"SetPos({_literal(pos)})",
        "" if scroll is None else f"Scroll({_literal(scroll)})",
        *_budget_steps(tokens, lod),
        "" if follow is None else "Run()" if follow else "Pause()",
    ]
    return _show(name, steps, builtin)


def grouping(
    name: str,
    members: Iterable[Member],
    *,
    tokens: int | None = None,
    lod: int | None = None,
    builtin: Builtin = str,
) -> str:
    """Bind `name` to a new group and show its summary."""
    given = {"tokens": tokens, "lod": lod}
    named = [f"{key}={_literal(value)}" for key, value in given.items() if value is not None]
    return f"{name} = {builtin('group')}({', '.join([*map(_member, members), *named])})"


def regrouping(
    name: str,
    *,
    add: Sequence[Member] = (),
    remove: Sequence[Member] = (),
    tokens: int | None = None,
    lod: int | None = None,
    builtin: Builtin = str,
) -> str:
    """Change the members or the budget of a group, and show it."""
    steps = [
        f"Add({', '.join(map(_member, add))})" if add else "",
        f"Remove({', '.join(map(_member, remove))})" if remove else "",
        *_budget_steps(tokens, lod),
    ]
    return _show(name, steps, builtin)


def closing(name: str, groups: Iterable[str] = ()) -> str:
    """Remove a handle from these groups, and delete it."""
    return "; ".join([*(f"{group}.Remove({name})" for group in groups), f"del {name}"])


def _budget_steps(tokens: int | None, lod: int | None) -> list[str]:
    return [
        "" if tokens is None else f"SetTokens({_literal(tokens)})",
        "" if lod is None else f"SetLod({_literal(lod)})",
    ]


def _show(name: str, steps: Iterable[str], builtin: Builtin) -> str:
    return f"{builtin('show')}({'.'.join([name, *filter(None, steps)])})"


def _member(member: Member) -> str:
    text, is_path = member
    return _literal(text) if is_path else text


def _literal(value: Literal) -> str:
    return repr(value)
