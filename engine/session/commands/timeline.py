"""`/timeline`, `/omit`, `/branch`, `/rewind`, `/diff`, `/replay` and `/edit`: statements, branches and their past."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Final, cast

from ...context.tail.feed import divergence_phrase
from ...context.tail.results import shown_text
from ...core.errors import InvalidRequestError
from ...core.execution import ReplayMode
from ...core.python_source import TAG_CHARS, TAG_RULE, is_tag, without_leading_tags
from ...core.text import ELLIPSIS, as_printed, code_span, cut_line, fenced, more, plural, printable, visible
from ...log.branches import SHOWN_BRANCHES, BranchRow, in_common
from ...log.comparison import differences, ending_of
from ...log.events.execution import ExecutionFinished
from ...log.file_history import Restorable
from ...log.timeline import Cell, Execution
from ..past.branch_diff import BranchDiff, Differing
from ..requests import (
    DRY_RUN,
    EDIT_MODES,
    KEEP_CONVERSATION,
    KEEP_FILES,
    EditMode,
    EditRequest,
    MoveResult,
    ReplayReport,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
    cell_numbered,
    no_such_statement,
    statement_number,
)
from . import CommandContext
from .files import left_sentence, would_lines

# --- /branch and /rewind ----------------------------------------------------------------------------------------------

NO_FILES_TO_RESTORE: Final = "No files would be restored."
_SHOWN_CHARS: Final = 20
_REBUILT: Final = "the namespace is rebuilt at its next use"


async def branch(context: CommandContext, argument: str) -> str:
    if not argument:
        return "\n".join(_lines(context.runtime.branches))
    name, *options = argument.split()
    wrong = _wrong(options, (KEEP_FILES,))
    if wrong:
        raise InvalidRequestError(f"`/branch NAME` accepts only {code_span(KEEP_FILES)}, not {wrong}.")
    return await switch_to(context, SwitchRequest(name, KEEP_FILES not in options))


async def switch_to(context: CommandContext, request: SwitchRequest) -> str:
    gone = await context.perform(request)
    assert isinstance(gone, MoveResult)
    return f"{_where(context)}.{_files(context, gone)}"


async def rewind(context: CommandContext, argument: str) -> str:
    words = argument.split()
    options = [word for word in words if word.startswith("--")]
    numbers = [word for word in words if not word.startswith("--")]
    wrong = _wrong(options, (KEEP_FILES, KEEP_CONVERSATION, DRY_RUN)) or _wrong(numbers[1:])
    if wrong:
        keeping = f"{code_span(KEEP_FILES)}, {code_span(KEEP_CONVERSATION)} and {code_span(DRY_RUN)}"
        raise InvalidRequestError(f"`/rewind K` accepts only {keeping}, not {wrong}.")
    statement = statement_number(numbers[0]) if numbers else None
    if statement is None:
        raise InvalidRequestError(no_such_statement(context.cells, numbers[0] if numbers else argument))
    request = RewindRequest(
        statement, KEEP_FILES not in options, KEEP_CONVERSATION not in options, is_dry=DRY_RUN in options
    )
    return await rewind_to(context, request)


async def rewind_to(context: CommandContext, request: RewindRequest) -> str:
    before = context.cells
    gone = await context.perform(request)
    assert isinstance(gone, MoveResult)
    if request.is_dry:
        return "\n".join(preview_lines(request.statement, gone.written, context.runtime.parts.cwd))
    if request.conversation:
        return f"{_where(context)}.{_undone(before, context.cells)}{_files(context, gone)}"
    return f"{_left_out(request.statement, len(before))}; the conversation is unchanged.{_files(context, gone)}"


def preview_lines(statement: int, found: Restorable, cwd: str) -> Sequence[str]:
    """What a rewind would do."""
    goal = f"the end of statement {statement}" if statement else "the beginning"
    return [f"This would go back to {goal}.", *(would_lines("restore", found, cwd) or [NO_FILES_TO_RESTORE])]


def _wrong(words: Collection[str], known: Collection[str] = ()) -> str:
    """The first unknown word, as an answer shows it, or ""."""
    return next((code_span(printable(cut_line(word, _SHOWN_CHARS))) for word in words if word not in known), "")


def _where(context: CommandContext) -> str:
    row = next(row for row in context.runtime.branches if row.is_active)
    return f"This is now branch {code_span(printable(row.name))}, {_extent(row)}; {_REBUILT}"


def _undone(before: Sequence[Cell], after: Sequence[Cell]) -> str:
    """A sentence about statements that a live replay ran again after this place, or "". The path now lacks that."""
    ran = [new.statement.index for old, new in zip(before, after, strict=False) if old.current != new.current]
    if not ran:
        return ""
    which = f"Statement {ran[0]}" if len(ran) == 1 else f"Statements {ran[0]} to {ran[-1]}"
    return f" {which} ran again later; these runs are undone too."


def _left_out(statement: int, last: int) -> str:
    if statement >= last:
        return f"No statement comes after {statement}"
    which = f"Statement {last} is" if last == statement + 1 else f"Statements {statement + 1} to {last} are"
    again = code_span(f"/omit {statement + 1}")
    return f"{which} left out, and {_REBUILT} ({again} puts one back)"


def _files(context: CommandContext, gone: MoveResult) -> str:
    """Say what became of the files, after a space. What was restored is shown as an act, with the names."""
    sentence = _files_sentence(context, gone)
    return f" {sentence}" if sentence else ""


def _files_sentence(context: CommandContext, gone: MoveResult) -> str:
    if gone.rewound is not None:
        return left_sentence(gone.rewound, context.runtime.parts.session_id)
    written = len(gone.written.files) + len(gone.written.left)
    if not written:
        return "No files needed restoring."
    if written == 1:
        return "1 file was written later, and stays unchanged."
    return f"{written} files were written later, and stay unchanged."


def _lines(rows: Sequence[BranchRow]) -> Sequence[str]:
    """The first branch, the active one and the newest, in their order, and the number of others."""
    newest = len(rows) - SHOWN_BRANCHES
    shown = [row for place, row in enumerate(rows) if place >= newest or row.parent is None or row.is_active]
    lines, rest = list(map(_line, shown)), len(rows) - len(shown)
    return [*lines, more(rest, "branch", f"in {code_span('rewindow branches')}")] if rest else lines


def _line(row: BranchRow) -> str:
    active = ", active" if row.is_active else ""
    own = row.last - row.shared
    count = f"{row.last} {plural(row.last, 'statement')}" if row.last else "no statements"
    return f"- {branch_words(row)}: {count}{f', {own} of its own' if row.shared and own else ''}{active}"


def branch_words(row: BranchRow) -> str:
    """The name of a branch, and where it branches off its parent."""
    start = "" if row.parent is None else f", from {code_span(printable(row.parent))} {_place(row.shared)}"
    return f"{code_span(printable(row.name))}{start}"


def _extent(row: BranchRow) -> str:
    return f"with {row.last} {plural(row.last, 'statement')}" if row.last else "without statements"


def _place(statement: int) -> str:
    return f"after statement {statement}" if statement else "at the beginning"


# --- /timeline and /omit ----------------------------------------------------------------------------------------------

SHOWN_STATEMENTS: Final = 20
_BRANCHES_OF_STATEMENT: Final = 3
"""The most branches that are named at one statement."""
SHOWN_EXECUTIONS: Final = 20
TAG_OPTION: Final = "--tag"
_BACK: Final = "`/rewind K` goes back to the end of statement K, `/rewind 0` to the beginning"
_OVER: Final = "`/branch NAME` switches to another branch"


def timeline_glance(context: CommandContext, argument: str) -> str:
    cells = context.cells
    option, _, name = argument.partition(" ")
    if option == TAG_OPTION:
        return _tagged(cells, name.strip())
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    rows = context.runtime.branches
    active = next(row for row in rows if row.is_active)
    others = [(row, in_common(rows, active.name, row.name)) for row in rows if not row.is_active]
    lines = [_line_among(cell, others) for cell in cells[-SHOWN_STATEMENTS:]]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(cells) - SHOWN_STATEMENTS, "statement", "before these"))
    if not others:
        return "\n".join([*lines, "", f"{_BACK}."])
    return "\n".join([f"Branch {branch_words(active)}:", "", *lines, "", f"{_BACK}, {_OVER}."])


def _line_among(cell: Cell, others: Sequence[tuple[BranchRow, int]]) -> str:
    ended = [row for row, common in others if common == cell.statement.index]
    names = [code_span(printable(row.name)) for row in ended[:_BRANCHES_OF_STATEMENT]]
    names += [f"{len(ended) - _BRANCHES_OF_STATEMENT} more"] if len(ended) > _BRANCHES_OF_STATEMENT else []
    verb = "branches" if len(ended) == 1 else "branch"
    return cell_line(cell) + (f"; {' and '.join(names)} {verb} off here" if ended else "")


def _tagged(cells: Sequence[Cell], name: str) -> str:
    if not is_tag(name):
        return f"`/timeline {TAG_OPTION} NAME` lists the statements with this tag; {TAG_RULE}."
    found = [cell for cell in cells if name in cell.statement.tag_names]
    if not found:
        return no_tagged_statement(name)
    lines = [cell_line(cell) for cell in found[-SHOWN_STATEMENTS:]]
    if len(found) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(found) - SHOWN_STATEMENTS, "statement", "before these"))
    return "\n".join(lines)


def no_tagged_statement(name: str) -> str:
    """The answer to a filter that leaves no statement."""
    return f"No statement has the tag {tag_span(name)}."


def tag_span(tag: str) -> str:
    """A tag as it is shown: imported ones may be longer than our own, or have control characters."""
    return code_span(cut_line(printable(tag), TAG_CHARS))


async def omit(context: CommandContext, argument: str) -> str:
    cells = context.cells
    if not argument:
        omitted = [cell_line(cell) for cell in cells if cell.omitted]
        return "\n".join(omitted) or "No statement is left out; `/omit 3` leaves statement 3 out."
    cell = cell_numbered(cells, argument)
    if cell is None:
        return no_such_statement(cells, argument)
    await context.runtime.omit(cell.statement.statement_id, not cell.omitted)
    now = "is left out of the namespace" if cell.omitted else "is in the namespace again"
    return f"Statement {argument} {now}, which is rebuilt at its next use. `/omit {argument}` takes this back."


def _one_statement(cells: Sequence[Cell], argument: str) -> str:
    number, point, execution = argument.partition(".")
    cell = cell_numbered(cells, number)
    if cell is None:
        return no_such_statement(cells, argument)
    if point:
        return _one_execution(cell, execution)
    parts = [cell_line(cell), fenced(visible(cell.statement.source), "python"), _result(cell.finished)]
    if len(cell.executions) > 1:
        parts += ["\n".join(_execution_lines(cell)), f"`/timeline {cell.index}.1` shows the first execution."]
    return "\n\n".join(parts)


def _result(finished: ExecutionFinished | None) -> str:
    return fenced(as_printed(shown_text(finished) or "(no output)" if finished is not None else "[running]"))


# Executions are numbered from 1 in the order in which they began: `3.2` is the second one of statement 3. Replays that
# have changed no variable count too.


def _one_execution(cell: Cell, text: str) -> str:
    executions, number = cell.executions, statement_number(text)
    if number is None or not 1 <= number <= len(executions):
        count = len(executions)
        there = f"it ran {count} {plural(count, 'time')}" if count else "it has not run"
        which = printable(cut_line(text, _SHOWN_CHARS)) or "of that name"
        return f"Statement {cell.index} has no execution {which}; {there}."
    execution = executions[number - 1]
    parts = [_execution_line(cell, number), _result(execution.finished)]
    if number > 1:
        before = executions[number - 2]
        found = [f"- {printable(each)}" for each in _differences(before, execution)]
        heading = f"Differences from execution {cell.index}.{number - 1}"
        parts.append("\n".join([f"{heading}:", "", *found]) if found else f"{heading}: none.")
    return "\n\n".join(parts)


def _execution_lines(cell: Cell) -> Sequence[str]:
    count = len(cell.executions)
    first = max(1, count - SHOWN_EXECUTIONS + 1)
    lines = [f"- {_execution_line(cell, number)}" for number in range(first, count + 1)]
    return [f"- {more(first - 1, 'execution', 'before these')}", *lines] if first > 1 else lines


def _execution_line(cell: Cell, number: int) -> str:
    execution = cell.executions[number - 1]
    how = [] if execution.started.mode is None else [f"{execution.started.mode} replay"]
    finished = execution.finished
    how += ["running"] if finished is None else [finished.status, f"{finished.time_ms:.0f} ms"]
    how += [f"differed in {_aspects((execution,))}"] if execution.divergences else []
    how += ["current"] if execution == cell.current else []
    return f"{cell.index}.{number} ({', '.join(how)})"


def _differences(before: Execution, after: Execution) -> Sequence[str]:
    """How an execution differs from the one before it, in phrases.

    The log has the differences from the execution that a replay was compared with, files included. If that is another
    one, the records are compared.
    """
    was, now = before.finished, after.finished
    if was is None or now is None:
        return ()
    if after.started.against == before.started.execution_id:
        return [divergence_phrase(each) for each in after.divergences]
    return differences(ending_of(was), ending_of(now)).phrases


def _aspects(executions: Sequence[Execution]) -> str:
    """The aspects in which executions differed from earlier ones."""
    found = dict.fromkeys(each.aspect for execution in executions for each in execution.divergences)
    return ", ".join("names" if aspect == "diff" else aspect for aspect in found)


def cell_line(cell: Cell) -> str:
    """The line of a statement in a list: number, beginning of the source, and result."""
    first, _, rest = without_leading_tags(cell.statement.source).strip().partition("\n")
    status = f"{cell.finished.status}, {cell.finished.time_ms:.0f} ms" if cell.finished else "running"
    files = len({each.path for each in cell.finished.artifacts}) if cell.finished else 0
    status += f", changed {files} {plural(files, 'file')}" if files else ""
    status += f", ran {len(cell.executions)} times" if len(cell.executions) > 1 else ""
    differed = _aspects(cell.executions[-1:])
    status += f", last differed in {differed}" if differed else ""
    status += ", left out" if cell.omitted else ""
    tags = cell.statement.tag_names
    status += f", {plural(len(tags), 'tag')} {', '.join(map(tag_span, tags))}" if tags else ""
    return f"{cell.statement.index}. {code_span(printable(first) + (f' {ELLIPSIS}' if rest else ''))} ({status})"


# --- /diff ------------------------------------------------------------------------------------------------------------

SHOWN_ROWS: Final = 50


def diff_glance(context: CommandContext, argument: str) -> str:
    left, *others = argument.split()
    if len(others) > 1:
        return "`/diff` takes two branches, or one to compare with the active one."
    active = next(row.name for row in context.runtime.branches if row.is_active)
    try:
        found = context.runtime.diff(left, *(others or (active,)))
    except InvalidRequestError as error:
        return str(error)
    return "\n".join(diff_lines(found, context.runtime.parts.cwd))


def diff_lines(diff: BranchDiff, cwd: str) -> Sequence[str]:
    """The differences as Markdown, for `/diff` and `rewindow diff`: statements, names and files."""
    left, right = (code_span(printable(name)) for name in (diff.left, diff.right))
    common = (
        "no statement" if not diff.shared else "statement 1" if diff.shared == 1 else f"statements 1 to {diff.shared}"
    )
    lines = [f"{left} and {right} have {common} in common."]
    for name, cells in ((left, diff.left_cells), (right, diff.right_cells)):
        lines += _listed(f"Only on {name}:", map(_cell, cells))
    lines += _listed("Names that differ:", (_name(each, left, right) for each in diff.names))
    lines += _listed("Files that differ:", (_file(each, left, right, cwd) for each in diff.files))
    if len(lines) == 1:
        lines.append("The branches do not differ.")
    return lines


def _listed(heading: str, rows: Iterable[str]) -> Sequence[str]:
    rows = list(rows)
    if not rows:
        return ()
    rest = [f"- {more(len(rows) - SHOWN_ROWS)}"] if len(rows) > SHOWN_ROWS else []
    return ("", heading, "", *(f"- {row}" for row in rows[:SHOWN_ROWS]), *rest)


def _cell(cell: Cell) -> str:
    return f"statement {cell_line(cell)}"


def _name(each: Differing, left: str, right: str) -> str:
    sides = ((each.left, left), (each.right, right))
    said = (f"{code_span(printable(side.shown))} on {name}" if side else f"none on {name}" for side, name in sides)
    return f"{code_span(each.name)}: {', '.join(said)}"


def _file(each: Differing, left: str, right: str, cwd: str) -> str:
    path = code_span(printable(os.path.relpath(each.name, cwd)))
    if each.left is not None and each.right is not None:
        return f"{path}: different content"
    return f"{path}: only on {left if each.right is None else right}"


# --- /replay and /edit ------------------------------------------------------------------------------------------------

MODES: Final[tuple[ReplayMode, ...]] = ("recorded", "live", "dry")
"""The first is the default."""
_REPLAY_SHOWN_CHARS: Final = 40


async def replay(context: CommandContext, argument: str) -> str:
    return await run_again(context, replay_request(argument, context.cells))


async def run_again(context: CommandContext, request: ReplayRequest) -> str:
    report = await context.perform(request)
    assert isinstance(report, ReplayReport)
    return report.text()


def replay_request(argument: str, cells: Sequence[Cell], known: Sequence[ReplayMode] = MODES) -> ReplayRequest:
    """Parse `K [J]` and at most one `known` mode (`--live`), in any order. Raises InvalidRequestError."""
    words = argument.split()
    modes = [word[2:] for word in words if word.startswith("--")]
    numbers = [word for word in words if not word.startswith("--")]
    for mode in modes:
        if mode not in known:
            ways = ", ".join(f"`--{each}`" for each in known)
            raise InvalidRequestError(f"{_shown(f'--{mode}')} is not an option here; the options are {ways}.")
    if len(numbers) not in (1, 2) or len(modes) > 1:
        raise InvalidRequestError(
            "Give the number of a statement, optionally the number of a later one, and at most one mode."
        )
    first, *last = (_number(cells, word) for word in numbers)
    mode = cast("ReplayMode", modes[0]) if modes else "recorded"
    return ReplayRequest(first, last[0] if last else None, mode)


def _number(cells: Sequence[Cell], word: str) -> int:
    found = statement_number(word)
    if found is None:
        raise InvalidRequestError(no_such_statement(cells, word))
    return found


def _shown(word: str) -> str:
    return f"'{cut_line(printable(word), _REPLAY_SHOWN_CHARS)}'"


async def edit(context: CommandContext, argument: str) -> str:
    head, _, source = argument.partition("\n")
    asked = replay_request(head, context.cells, EDIT_MODES)
    return await run_edited(context, EditRequest(asked.first, source, asked.last, cast("EditMode", asked.mode)))


async def run_edited(context: CommandContext, request: EditRequest) -> str:
    report = await context.perform(request)
    assert isinstance(report, ReplayReport)
    back = f" This is now branch {code_span(report.branch)}; `/branch` lists all." if report.branch else ""
    return report.text(back)
