"""What the tokens of a context are worth: doubled, stale, unused, contained, reused, and what a transcript would take.

Ten sessions of `quality_sessions`; what is looked at is what a server received. The measures are plain functions over
prompts, which tests call. The peers have the same budget and the same questions. goose needs a model, so its transcript
is made by its published rules: each output stays, files and shell outputs have at most 2,000 lines, and at 80 % of
the context a summary replaces everything.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.environments import NODE, peer_package, peer_python
from benchmarks.measuring import PROGRAMS, Setting
from benchmarks.quality_sessions import PACKAGES, TASKS, Files, Prompt, Step, Target, package, play, targets
from benchmarks.report import Row
from engine.core.tokens import count

AIDER: Final = "aider-chat==0.86.1"
REPOMIX: Final = "repomix@1.18.1"
BUDGETS: Final = (300, 1_000)
CONTEXT: Final = 128_000
SUMMARY: Final = 2_000
LONGEST: Final = 2_000
SHIFT: Final = 12
"""How far apart two lines with one text may be and count as one: edits above move lines."""

_HEADING: Final = re.compile(r"^\[([^\]:]+?)(?::\d+)?(?: \(.*\))?\]$")
_LINE: Final = re.compile(r"^(\d+)(-\d+)?\t(.*)$")
_SUMMARY: Final = re.compile(r"^\d+ lines? of ")
_CHANGED: Final = re.compile(r"^\w+: .* changed in (\S+) \(")
_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_ROW: Final = re.compile(r"^\w+: view ([^,]+),.*, changed")
_WROTE: Final = re.compile(r"^wrote (\S+): ")
_WORD: Final = re.compile(r"[A-Za-z_]\w{3,}")
_COMMON: Final = frozenset(
    ("self", "None", "True", "False", "return", "import", "from", "with", "async", "await", "class", "else", "elif")
)

_tokens = lru_cache(maxsize=200_000)(count)


class Line(NamedTuple):
    """A line of a file in a prompt. `kind` is text, outline or feed; `block` numbers the renders of the prompt."""

    path: str
    number: int
    text: str
    kind: str
    block: int
    message: int

    @property
    def tokens(self) -> int:
        return _tokens(f"{self.number}\t{self.text}\n")


class Reading(NamedTuple):
    """The lines of files in a prompt, and by path the last message that says that the file has changed."""

    lines: Sequence[Line]
    marked: Mapping[str, int]


class Waste(NamedTuple):
    """Tokens: shown in all prompts, doubled or stale among them; and of what entered a prompt, those never used."""

    shown: int
    doubled: int
    stale: int
    marked: int
    """Stale too, but the prompt says so."""
    moved: int
    """The same, but only the line's number has changed."""
    entered: int
    unused: int


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Rows of the four measures."""
    sizes = TASKS[:1] if setting.quick else TASKS
    played = [play(PACKAGES[seed % len(PACKAGES)], seed, tasks) for seed, tasks in enumerate(sizes)]
    return [*_waste(played), *_information(setting), *_reuse(played), *_transcripts(played)]


def read(prompt: Prompt) -> Reading:
    """All lines of files that the prompt shows: renders in results and tail, and the changes of the feed."""
    lines: list[Line] = []
    block = 0
    for at, message in enumerate(prompt.messages[1:], 1):
        path, kind, number, outlined = "", "", 0, False
        for text in message.splitlines():
            if (heading := _HEADING.match(text)) and heading[1] in prompt.files:
                path, kind, block, outlined = heading[1], "text", block + 1, False
            elif change := _CHANGED.match(text):
                path, kind, block = change[1], "hunks", block + 1
            elif (hunk := _HUNK.match(text)) and kind in ("hunks", "feed"):
                kind, number = "feed", int(hunk[1])
            elif kind == "feed" and path and text[:1] in ("+", " ", "-"):
                if text[0] != "-":
                    lines.append(Line(path, number, text[1:], kind, block, at))
                    number += 1
            elif path and kind == "text" and (found := _LINE.match(text)):
                lines.append(Line(path, int(found[1]), found[3], "outline" if outlined else "text", block, at))
            elif path and _SUMMARY.match(text):
                outlined = True
    return Reading([line for line in lines if line.text.strip()], _marked(prompt.messages))


def _marked(messages: Sequence[str]) -> dict[str, int]:
    """The last message in which a change of the path is reported: by the feed, the table, or a tool."""
    return {
        found[1]: at
        for at, message in enumerate(messages)
        for text in message.splitlines()
        if (found := _CHANGED.match(text) or _ROW.match(text) or _WROTE.match(text))
    }


def doubled(reading: Reading) -> list[Line]:
    """Lines that an earlier render of the same prompt shows too."""
    seen: dict[tuple[str, str], list[Line]] = {}
    found: list[Line] = []
    for line in reading.lines:
        before = seen.setdefault((line.path, line.text), [])
        if any(each.block != line.block and abs(each.number - line.number) <= SHIFT for each in before):
            found.append(line)
        before.append(line)
    return found


def stale(reading: Reading, files: Files) -> tuple[list[Line], list[Line]]:
    """Lines that are no longer so in the file: those without a word about it, and those with one.

    A word is a later report that the file has changed, or a later render of the place.
    """
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for line in reading.lines:
        least, most = spans.get((line.path, line.block), (line.number, line.number))
        spans[line.path, line.block] = min(least, line.number), max(most, line.number)
    silent: list[Line] = []
    told: list[Line] = []
    for line in reading.lines:
        if _is_current(line, files):
            continue
        later = any(
            path == line.path and block > line.block and least <= line.number + SHIFT and line.number - SHIFT <= most
            for (path, block), (least, most) in spans.items()
        )
        (told if later or reading.marked.get(line.path, -1) >= line.message else silent).append(line)
    return silent, told


def unused(lines: Iterable[Line], later: Sequence[Step]) -> list[Line]:
    """Lines of which no later statement has a name, nor the line itself."""
    words = {word for step in later for word in _words(step.source)}
    return [line for line in lines if not _words(line.text) & words]


def waste(prompts: Sequence[Prompt]) -> Waste:
    """The tokens of one session."""
    total = Waste(0, 0, 0, 0, 0, 0, 0)
    before: Sequence[str] = ()
    for at, prompt in enumerate(prompts):
        reading = read(prompt)
        silent, told = stale(reading, prompt.files)
        first = next((n for n, (a, b) in enumerate(zip(before, prompt.messages, strict=False)) if a != b), len(before))
        entered = [line for line in reading.lines if line.message >= first]
        lost = unused(entered, [each.step for each in prompts[at:]])
        moved = [line for line in told if _is_moved(line, prompt.files)]
        parts = (reading.lines, doubled(reading), silent, told, moved, entered, lost)
        total = Waste(*(old + sum(line.tokens for line in new) for old, new in zip(total, parts, strict=True)))
        before = prompt.messages
    return total


def contained(text: str, names: Iterable[str], lines: str) -> tuple[float, float]:
    """The shares of the names and of the lines (the non-empty ones) that the text has."""
    words, shown = set(re.findall(r"\w+", text)), text.splitlines()
    wanted, changed = set(names), [line.strip() for line in lines.splitlines() if line.strip()]
    found = sum(any(each.strip().endswith(line) for each in shown) for line in changed)
    return len(wanted & words) / max(len(wanted), 1), found / max(len(changed), 1)


def shared(prompts: Sequence[Prompt]) -> tuple[int, int]:
    """Tokens of all prompts, and those among them that begin as the prompt before."""
    return _shared([prompt.messages for prompt in prompts])


def transcript(prompts: Sequence[Prompt]) -> list[tuple[str, ...]]:
    """The prompts of a program that appends each output and removes none, for the same steps. See the module."""
    kept: list[str] = []
    sent: list[tuple[str, ...]] = []
    task = -1
    for prompt in prompts:
        if prompt.task != task:
            task = prompt.task
            kept.append(f"Step {task}.")
        if sum(map(_tokens, kept)) > 0.8 * CONTEXT:
            kept = ["x " * SUMMARY]
        sent.append((prompt.messages[0], *kept))
        kept += [text for action in prompt.step.plain for text in (prompt.step.source, _output(action, prompt.files))]
    # A step with nothing to do there is no call.
    return [each for each, prompt in zip(sent, prompts, strict=True) if prompt.step.plain or not prompt.step.source]


def _waste(played: Sequence[Sequence[Prompt]]) -> list[Row]:
    total = Waste(*(sum(parts) for parts in zip(*map(waste, played), strict=True)))
    rounds = [len(each) for each in played]
    where = f"{len(played)} sessions of {min(rounds)} to {max(rounds)} Rounds"
    return [
        _share(f"{where}: lines of files that a prompt shows twice", total.doubled, total.shown),
        _share(f"{where}: stale lines of files, with nothing in the prompt about it", total.stale, total.shown),
        _share(f"{where}: stale lines, superseded or reported as changed in the prompt", total.marked, total.shown),
        _share(f"{where}: those of them with another number only", total.moved, total.shown),
        _share(
            f"{where}: lines that entered a prompt, of which no later step used a name", total.unused, total.entered
        ),
    ]


def _reuse(played: Sequence[Sequence[Prompt]]) -> list[Row]:
    totals = [sum(parts) for parts in zip(*map(shared, played), strict=True)]
    others = [sum(parts) for parts in zip(*(_shared(transcript(each)) for each in played), strict=True)]
    peer = f"transcript: {others[1] / others[0]:.1%}"
    return [_share("tokens of the prompts in the prefix shared with the one before", totals[1], totals[0], peer)]


def _transcripts(played: Sequence[Sequence[Prompt]]) -> list[Row]:
    """One row for all tokens, one for those that no prefix spares, and one for the largest prompts."""
    tasks = sum(each[-1].task + 1 for each in played)
    ours = [(*shared(each), max(_size(prompt.messages) for prompt in each)) for each in played]
    theirs = [(*_shared(made), max(map(_size, made))) for made in map(transcript, played)]
    figures: dict[str, Callable[[tuple[int, int, int]], float]] = {
        "tokens of the prompts for each task": lambda each: each[0] / tasks,
        "tokens for each task that no shared prefix spares": lambda each: (each[0] - each[1]) / tasks,
        "tokens of the largest prompt, mean of the sessions": lambda each: each[2] / len(played),
    }
    rows: list[Row] = []
    for name, of in figures.items():
        mine, other = sum(map(of, ours)), sum(map(of, theirs))
        peer = f"transcript by goose's rules, whole files: {other:,.0f}"
        rows.append(Row(name=name, ours=f"{mine:,.0f}", peer=peer, ratio=f"{mine / other:.2f} x"))
    return rows


def _information(setting: Setting) -> list[Row]:
    """What each level tells of the next step, at each budget."""
    rows: list[Row] = []
    for budget in BUDGETS[:1] if setting.quick else BUDGETS:
        figures: dict[str, list[tuple[float, float, int]]] = {}
        missing: set[str] = set()
        for seed, name in enumerate(PACKAGES):
            with tempfile.TemporaryDirectory() as directory:
                home = Path(directory)
                (home / name).symlink_to(package(name))
                chosen = targets(_copy(home, name), seed + 100, 2 if setting.quick else 6)
                for target in chosen:
                    texts = dict(_levels(name, target, budget))
                    if not setting.quick:
                        texts |= _peers(home / "copy", target, budget, missing)
                    for kind, text in texts.items():
                        lines = target.new if kind.startswith("level 3") else target.old
                        figures.setdefault(kind, []).append((*contained(text, target.needed, lines), count(text)))
        for kind, found in figures.items():
            names, lines, tokens = (sum(values) / len(found) for values in zip(*found, strict=True))
            rows.append(
                Row(
                    name=f"at most {budget} tokens, {kind}: names and lines of the next edit that it contains",
                    ours=f"{names:.0%} of names, {lines:.0%} of lines in {tokens:,.0f} tokens",
                    ratio=f"{names / tokens * 1000:.2f} and {lines / tokens * 1000:.2f} for each 1,000",
                )
            )
        rows += [Row(name=f"at most {budget} tokens, {each}", ours="missing: cannot be installed") for each in missing]
    return rows


def _copy(home: Path, name: str) -> Path:
    copy = home / "copy"
    copy.mkdir()
    for path in package(name).rglob("*.py"):
        place = copy / name / path.relative_to(package(name))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text())
    return copy


def _levels(name: str, target: Target, budget: int) -> Iterator[tuple[str, str]]:
    path, symbol = target.path, target.symbol
    sources = {
        "level 0 from the top": f"view({path!r}, tokens={budget})",
        "level 0 at the symbol": f"view({path!r}, {symbol!r}, tokens={budget})",
        "level 1": f"view({path!r}, lod=1, tokens={budget})",
        "level 2": f"view({path!r}, lod=2, tokens={budget})",
        "group of the package, level 1": f"group({name + '/**/*.py'!r}, lod=1, tokens={budget}, mode='paused')",
        "level 3 after the edit": f"v = view({path!r}, tokens={budget}, freq='Sync')",
    }
    after = [f"edit({path!r}, {target.old!r}, {target.new!r})", f"show(v, lod=3, tokens={budget})"]
    prompts = play(name, 0, 1, only=[Step(source) for source in (*sources.values(), *after)])
    # Messages are: instructions, prompt, then a call and its result for each step.
    results = [prompts[-1].messages[3 + 2 * at] for at in range(len(sources) + 2)]
    yield from zip(sources, [*results[: len(sources) - 1], results[-1]], strict=True)


def _peers(folder: Path, target: Target, budget: int, missing: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    python, modules = peer_python("aider", AIDER, minors=(11, 12)), peer_package("repomix", REPOMIX)
    if python:
        command = (str(python), str(PROGRAMS / "repo_map.py"), str(folder), str(budget))
        found[f"repo map of {AIDER}"] = _cut(_run(*command), budget)
        found[f"repo map of {AIDER}, function mentioned"] = _cut(_run(*command, target.name), budget)
    else:
        missing.add(AIDER)
    if modules:
        options = ("--compress", "--stdout", "--quiet", "--style", "plain", "--no-file-summary")
        packed = _run(
            str(NODE), str(modules / ".bin" / "repomix"), *options, "--no-directory-structure",
            "--no-gitignore", "--include", target.path, str(folder),
        )  # fmt: skip
        found[f"{REPOMIX} --compress of the file, cut"] = _cut(packed, budget)
    else:
        missing.add(REPOMIX)
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout.strip()


def _cut(text: str, budget: int) -> str:
    """The first lines that fit."""
    left = budget
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        left -= count(line)
        if left < 0:
            break
        kept.append(line)
    return "".join(kept)


def _output(action: str, files: Files) -> str:
    kind, _, rest = action.partition(" ")
    path = rest.rpartition(" ")[2]
    if kind == "view":
        return "\n".join(f"{at}: {line}" for at, line in enumerate(files[path].splitlines()[:LONGEST], 1))
    if kind == "edit":
        return f"The file {path} has been edited."
    if rest.startswith("ls "):
        return "\n".join(sorted({each.removeprefix(f"{path}/").partition("/")[0] for each in files}))
    if not rest.startswith("grep "):
        return ""
    outlined = path in files
    pattern = re.compile(r"^ *(class|def|async def) ") if outlined else re.compile(rf"\b{rest.split()[2]}\b")
    hits = [
        f"{'' if outlined else each + ':'}{at}:{line}"
        for each, text in files.items()
        if each == path or not outlined
        for at, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    return "\n".join(hits[:LONGEST])


def _shared(prompts: Sequence[Sequence[str]]) -> tuple[int, int]:
    reused = 0
    for before, now in pairwise(prompts):
        for old, new in zip(before, now, strict=False):
            if old != new:
                same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
                reused += _tokens(new[: min(len(old), len(new)) if same is None else same])
                break
            reused += _tokens(new)
    return sum(map(_size, prompts)), reused


def _size(messages: Iterable[str]) -> int:
    return sum(map(_tokens, messages))


def _share(name: str, part: int, whole: int, peer: str = "") -> Row:
    return Row(name=name, ours=f"{part / max(whole, 1):.1%} of {whole:,} tokens", peer=peer)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text)) - _COMMON


def _is_moved(line: Line, files: Files) -> bool:
    now = files.get(line.path, "").splitlines()
    return line.text in now[max(line.number - 1 - SHIFT, 0) : line.number + SHIFT]


def _is_current(line: Line, files: Files) -> bool:
    now = files.get(line.path, "").splitlines()
    if now[line.number - 1 : line.number] == [line.text]:
        return True
    if line.kind != "outline":
        return False
    name = next(iter(re.findall(r"(?:class|def) (\w+)|(\w+)", line.text)), ("", ""))
    return any((name[0] or name[1]) in each for each in now[line.number - 1 : line.number + 5])
