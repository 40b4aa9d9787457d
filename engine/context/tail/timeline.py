"""The timeline section: condensed statements as they would be written now.

A call is replaced if its handle has changed since (section 1.2 of the statement timeline): it is commented out, with
its place and last valid statement, and the call that would make the current handle follows. This needs one plain
assignment at the margin that made one handle which still has the name: `name = view(...)` or `name = group(...)`,
perhaps with calls of the handle's methods behind it. Any other statement is unchanged, because its text does not say
which handle is meant; a comment above it describes its current handles. Unchanged arguments keep their spelling.

Pure: from texts to text. A source that Python cannot parse, because its end was cut off, is unchanged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.python_source import parsed
from ...core.text import DOTS, more, plural, printable
from ...files.tails import MadeHandle, PastStatement, Policy
from .section_parts import EMPTY, Count, Part

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {"view": ("path", "pos", "tokens", "lod", "mode", "freq"), "group": ()}
"""The constructors of handles, with the names of their positional arguments."""
_OVERRIDES: Final[Mapping[str, tuple[str, ...]]] = {
    "SetTokens": ("tokens",),
    "SetLod": ("lod",),
    "SetPos": ("pos",),
    "Scroll": ("pos",),
    "Run": ("mode", "freq"),
    "Pause": ("mode", "freq"),
}
"""The arguments that a method overrides."""
_MEMBERS: Final = frozenset(("Add", "Remove", "Replace"))
_CHAINED: Final = frozenset((*_OVERRIDES, *_MEMBERS, "Refresh"))
"""Methods that return the handle, so they may follow the constructor."""
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BEFORE: Final = re.compile(rb"[ \t]*;[ \t]*\Z")
_MOST_REMARKS: Final = 4
"""Largest number of comments on one statement."""
_OTHERWISE: Final = "that have changed since"


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replace the bytes `start:end` of the source by `text`, on lines of its own."""

    start: int
    end: int
    text: str


def as_it_is_now(statement: PastStatement, policies: Mapping[str, Policy]) -> str:
    """Return the source with superseded calls replaced or commented.

    No blank line at either end.

    Args:
        statement: the statement that ran.
        policies: the living handles, by their ids.
    """
    changed = [made for made in statement.made if made.changed_by or made.obj_id not in policies]
    tree = _parsed(statement.source) if changed else None
    if tree is None:
        remarks = [f"# {_remark(made, policies)}" for made in changed[:_MOST_REMARKS]]
        return "\n".join([*remarks, statement.source.strip("\r\n").rstrip()])
    source = _Source(statement.source)
    edits, others = list[_Edit](), list[MadeHandle]()
    for made in changed:
        edit = _replaced(statement.index, made, policies.get(made.obj_id), tree, source)
        if edit is None:
            others.append(made)
        else:
            edits.append(edit)
    edits += (_remarked(made, policies, tree, source) for made in others[:_MOST_REMARKS])
    if len(others) > _MOST_REMARKS:
        edits.append(_Edit(0, 0, f"# {more(len(others) - _MOST_REMARKS, 'handle')} {_OTHERWISE}\n"))
    return source.edited(edits).strip("\r\n").rstrip()


def calls_now(statement: PastStatement, policies: Mapping[str, Policy]) -> str:
    """Return the superseded calls of handles in `policies`, commented, each above the call that has its effect now.

    Ends with a newline unless it is empty. A call that is no plain assignment is described in a comment.
    """
    changed = [made for made in statement.made if made.changed_by and made.obj_id in policies]
    tree = _parsed(statement.source) if changed else None
    source = _Source(statement.source)
    lines: list[str] = []
    for made in changed[:_MOST_REMARKS]:
        edit = None if tree is None else _replaced(statement.index, made, policies[made.obj_id], tree, source)
        lines.append(f"# {_remark(made, policies)}" if edit is None else edit.text)
    return "".join(f"{line}\n" for line in lines)


def _parsed(source: str) -> ast.Module | None:
    if source.startswith("\ufeff"):
        return None  # because columns do not include a byte order mark
    return parsed(source)


class _Source:
    """A source as bytes, because the columns of its tree count bytes."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self._data))]

    def line(self, number: int) -> int:
        """Return the offset of a line, counted from 1."""
        return self._starts[number - 1]

    def span(self, node: ast.stmt | ast.expr | ast.keyword) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.line(node.lineno) + node.col_offset, self.line(last) + column

    def text(self, node: ast.stmt | ast.expr | ast.keyword) -> str:
        start, end = self.span(node)
        return self._data[start:end].decode()

    def edited(self, edits: Sequence[_Edit]) -> str:
        """Apply the edits, last to first.

        Code that shares a line with one moves to another line.
        """
        data = self._data
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            before, after = data[: edit.start], data[edit.end :]
            if edit.end > edit.start:
                before = _BEFORE.sub(b"\n", before)
                after = after.lstrip(b" \t").removeprefix(b";").lstrip(b" \t")
                after = after if after[:1] in (b"", b"\n", b"\r") else b"\n" + after
            data = before + edit.text.encode() + after
        return data.decode()


def _replaced(index: int, made: MadeHandle, policy: Policy | None, tree: ast.Module, source: _Source) -> _Edit | None:
    """Replace the plain assignment that made the handle.

    Returns None if there is none.
    """
    if policy is None or not made.name or policy.name != made.name:
        return None
    found = [node for node in tree.body if isinstance(node, ast.Assign) and _assigns(node, made)]
    call = _constructor(found[0].value) if len(found) == 1 else None
    if call is None or not made.obj_id.startswith(f"{_name_of(call)}-"):
        return None
    now = _call_now(call, made, policy, source)
    if now is None:
        return None
    start, end = source.span(found[0])
    until = f", until statement {made.until}" if made.until > index else ""
    lines = [f"# {line}" for line in source.text(found[0]).splitlines()]
    lines[-1] += f"  # statement {index}{until}"
    return _Edit(start, end, "\n".join([*lines, f"{made.name} = {now}"]))


def _assigns(node: ast.Assign, made: MadeHandle) -> bool:
    is_there = node.lineno <= made.line <= (node.end_lineno or node.lineno)
    return is_there and len(node.targets) == 1 and _name_of(node.targets[0]) == made.name


def _constructor(value: ast.expr) -> ast.Call | None:
    """Return the call of `view` or `group` that a value is, or whose methods it calls."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CHAINED:
        value = value.func.value
    return value if isinstance(value, ast.Call) and _name_of(value) in _PLACES else None


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name
        case _:
            return ""


def _call_now(call: ast.Call, made: MadeHandle, policy: Policy, source: _Source) -> str | None:
    """Return the constructor call for the current handle.

    Returns None if it cannot be written.
    """
    overridden = dict.fromkeys(each for method in made.changed_by for each in _OVERRIDES.get(method, ()))
    now = {each: policy.arguments.get(each) for each in overridden}
    by_place = [source.text(each) for each in call.args]
    if not _MEMBERS.isdisjoint(made.changed_by):
        if policy.members is None:
            return None
        by_place = list(policy.members)
    else:
        names = _PLACES[_name_of(call)]
        if names and any(isinstance(each, ast.Starred) for each in call.args):
            return None  # because it may stand for any argument
        for place, name in enumerate(names[: len(by_place)]):
            if name in now:
                by_place[place] = now.pop(name) or _UNSAID[name]
    if now and any(each.arg is None for each in call.keywords):
        return None  # for the same reason
    by_name: list[str] = []
    for each in call.keywords:
        if each.arg not in now:
            by_name.append(source.text(each))
        elif (text := now.pop(each.arg)) is not None:
            by_name.append(f"{each.arg}={text}")
    given = [f"{name}={text}" for name, text in now.items() if text is not None]
    return f"{_name_of(call)}({', '.join([*by_place, *by_name, *given])})"


_UNSAID: Final[Mapping[str, str]] = {"pos": '"0:0"', "tokens": "2000", "lod": "0", "mode": '"paused"', "freq": "None"}
"""Arguments of a view that need not be written."""


def _remarked(made: MadeHandle, policies: Mapping[str, Policy], tree: ast.Module, source: _Source) -> _Edit:
    """Write a comment above the statement at the margin that made the handle."""
    around = (node for node in tree.body if _first_line(node) <= made.line <= (node.end_lineno or node.lineno))
    node = next(around, None)
    start = 0 if node is None else source.line(_first_line(node))
    return _Edit(start, start, f"# {_remark(made, policies)}\n")


def _first_line(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def _remark(made: MadeHandle, policies: Mapping[str, Policy]) -> str:
    policy = policies.get(made.obj_id)
    line = f"line {made.line}: " if made.line else ""
    if policy is None:
        return f"{line}{made.name or made.obj_id} is gone"
    values = ", ".join(f"{name}={text}" for name, text in policy.arguments.items() if text is not None)
    return f"{line}{policy.name or made.obj_id} is now at {values}"


# --- the section -----------------------------------------------------------------------------------------------------


HEADING: Final = "Statements that the summary replaces, with handles as they are now:\n"
TIMELINE_TOKENS: Final = 1_200
"""Largest budget of the section. Small, because every call reads the tail again."""


class Past:
    """The statements as blocks, made on demand from the newest on."""

    def __init__(
        self, statements: Sequence[PastStatement], left_out: int, policies: Mapping[str, Policy], count: Count
    ) -> None:
        self._statements = statements[::-1]
        self._left_out = left_out
        self._policies = policies
        self._count = count
        self._blocks: list[tuple[str, int]] = []

    def within(self, budget: int) -> Part:
        """Write the newest statements that fit `budget` tokens, oldest first.

        The others are counted.
        """
        if not self._statements:
            return EMPTY
        count, number = self._count, len(self._statements)
        room = min(budget, TIMELINE_TOKENS) - count(HEADING)
        note = count(_earlier(number + self._left_out))
        kept: list[tuple[str, int]] = []
        for place in range(number):
            is_last = place == number - 1 and not self._left_out
            block = self._fitting(place, room if is_last else room - note)
            if block is None:
                break
            kept.append(block)
            room -= block[1]
        if not kept:
            return EMPTY
        left = _earlier(number - len(kept) + self._left_out)
        text = "".join((HEADING, left, *(text for text, _ in reversed(kept))))
        tokens = count(HEADING) + (count(left) if left else 0) + sum(tokens for _, tokens in kept)
        return Part(text, tokens)

    def _fitting(self, place: int, room: int) -> tuple[str, int] | None:
        """Write a statement whole, or its first line, within a number of tokens."""
        if place == len(self._blocks):
            text = _block(self._statements[place], self._policies)
            self._blocks.append((text, self._count(text)))
        if self._blocks[place][1] <= room:
            return self._blocks[place]
        head = _head(self._blocks[place][0], self._statements[place].lines_left_out)
        tokens = self._count(head)
        return (head, tokens) if tokens <= room else None


def past(
    statements: Sequence[PastStatement], left_out: int, policies: Mapping[str, Policy], count: Count
) -> Callable[[int], Part]:
    """Prepare the section as a function from a budget.

    Results are not shown, because the summary replaces them.

    Args:
        statements: oldest first.
        left_out: number of older ones.
        policies: the living handles, by their ids.
        count: exact tokens.
    """
    return Past(statements, left_out, policies, count).within


def _block(statement: PastStatement, policies: Mapping[str, Policy]) -> str:
    ended = f", {statement.ended}" if statement.ended else ""
    files = f" (looked at {', '.join(statement.files)})" if statement.files else ""
    rest = f"\n{_rest(statement.lines_left_out)}" if statement.lines_left_out else ""
    return f"# statement {statement.index}{printable(ended + files)}\n{as_it_is_now(statement, policies)}{rest}\n"


def _head(block: str, left_out: int) -> str:
    """Return the heading and first line of a block, with the number of missing lines."""
    heading, *lines = block.rstrip("\n").split("\n")  # no lines: a statement without a source
    # If the source was cut, the last line says so.
    missing = len(lines[1:]) - bool(left_out) + left_out
    return "\n".join([heading, *lines[:1], *([_rest(missing)] if missing else ())]) + "\n"


def _rest(lines: int) -> str:
    return f"# {DOTS} {lines} more {plural(lines, 'line')}"


def _earlier(statements: int) -> str:
    return f"# {DOTS} {statements} earlier {plural(statements, 'statement')}\n" if statements else ""
