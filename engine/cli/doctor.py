"""`rewindow doctor`: checks everything that a session needs, and says how to fix what is missing.

Each check is a function that yields findings, and a row of CHECKS, in the order of the report. A check may raise
EngineError or OSError, which becomes a failure. `doctor`, at the end, runs them and prints the report.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

import anyio
import typer

from ..context.models import make_model
from ..core.clock import SystemClock
from ..core.domain import PARTS, Domain, Layer, abilities, is_bare, is_held
from ..core.errors import EngineError
from ..core.ids import ExecutionId
from ..core.key_file import warning_about
from ..core.settings import DEFAULT_STORE, SETTINGS, config_path
from ..core.store_address import shown as shown_address
from ..core.text import plural, visible
from ..core.tokens.ranks import encoding
from ..files.installation import Installation, own_installation
from ..files.outline.grammars import missing
from ..files.outline.languages import LANGUAGES
from ..files.search.commands import INSTALL, find_ripgrep
from ..log.redaction import SHORTEST
from ..log.secrets import allowed_variables, find_secrets
from ..log.statements import EffectAnswer, EffectRequest, RunRequest
from ..log.store import DATABASE, open_store
from ..log.store.maintenance import contents_taken, faults, open_to_others
from ..log.store.postgresql.store import PostgresqlStore
from ..runtime.checkpoint_memory import free_memory, is_short
from ..runtime.environment import EnvironmentSpec
from ..runtime.sandbox import landlock
from ..runtime.sandbox.entering import MISSING, hides_processes
from ..runtime.system import kernel
from ..runtime.system.own_process import ADOPTS_ORPHANS
from ..runtime.system.process_table import read
from ..runtime.system.support import differences
from ..runtime.system.support import missing as missing_of_system
from ..runtime.worker.processes.ending import left_behind
from ..runtime.worker.processes.memory import MOST_PROCESSES, most_tasks
from ..runtime.worker_environment import WorkerEnvironment
from ..runtime.zygote import Zygote
from ..session.directories import find_project_environment
from ..session.keys import Keys
from ..session.working_tree.baseline import FOLDER, UNUSED_SECONDS
from .output import (
    check_formats,
    print_json,
    print_json_rows,
    redactor,
    settings,
    shown,
    size,
    store,
    working_directory,
)

Grade = Literal["ok", "note", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    With `failed`, sessions cannot work; a `note` is something that the user may want to change.
    """

    grade: Grade
    text: str


NOT_RUN: Final = "macOS: Rewindow was written and tested without one; tell us what breaks"

# The interpreter, the system, options and where they come from, the model, and secrets in the environment.


def python() -> Iterable[Finding]:
    return [
        Finding("ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {sys.prefix}")
    ]


def system() -> Iterator[Finding]:
    """Say what this system lacks, where it is not Linux."""
    if differences():
        yield Finding("note", NOT_RUN)
    yield from (Finding("note", f"this system has {each}") for each in differences())
    yield from (Finding("failed", each) for each in missing_of_system())


def configuration() -> Iterator[Finding]:
    values = settings()  # checks all of them too
    path = config_path(os.environ)
    from_file = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    yield Finding("ok", f"{'config file' if path.exists() else 'no config file at'} {shown(str(path))}")
    unset = 0
    for option in SETTINGS:
        if os.environ.get(option.variable):
            origin = f"from {option.variable}"
        elif from_file.get(option.name):
            origin = "from the config file"
        else:
            unset += 1
            continue
        value: object = getattr(values, option.name)
        text = shown_address(str(value)) if option.may_have_password else _text(value)
        yield Finding("ok", f"{option.name} = {shown(text)}  ({origin})")
    which = "the other" if unset < len(SETTINGS) else "all"
    yield Finding("ok", f"{which} {unset} settings have their defaults (`rewindow help configuration`)")


def _text(value: object) -> str:
    """Format a value as it can be set."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        value = ", ".join(map(str, cast("tuple[object, ...]", value))) or None
    return "not set" if value is None else str(value)


def model() -> Iterable[Finding]:
    chosen = make_model(settings().model)
    if chosen.name == "direct":
        return [Finding("note", "no language model is configured: your input runs as Python (model `direct`)")]
    name = settings().model
    form = "" if settings().calls_tools(name) else ", which writes statements as text (models_without_tools)"
    return [Finding("ok", f"model {shown(name)}{form}")]


def secrets() -> Iterator[Finding]:
    keys = Keys(os.environ)
    for problem in filter(None, (keys.problem, warning_about(os.environ))):
        yield Finding("note", problem)
    if keys.stored:
        yield Finding("ok", f"stored keys of {', '.join(sorted(map(shown, keys.stored)))} (`rewindow auth list`)")
    found = find_secrets(os.environ, settings().hidden_names)
    if found.names:
        names = ", ".join(map(shown, found.names))
        yield Finding(
            "ok", f"variables hidden from statements and redacted in texts, because their names look secret: {names}"
        )
    else:
        yield Finding("ok", "no environment variable looks like a secret")
    if found.short:
        names = ", ".join(map(shown, found.short))
        yield Finding(
            "note", f"variables not redacted, because their values are shorter than {SHORTEST} characters: {names}"
        )
    if found.words:
        names = ", ".join(map(shown, found.words))
        yield Finding(
            "note",
            "variables redacted in all texts, even in files that a model reads, although the values "
            f"look like words: {names}; if a variable is not secret, add it to the option "
            "hidden_names after a `!`",
        )


# Outlines: the grammar of each language.


def outlines() -> Iterator[Finding]:
    unusable = missing()
    for reason in unusable:
        yield Finding("note", f"some outlines use only the indentation; reinstall the grammar: {reason}")
    if not unusable:
        yield Finding("ok", f"outlines of {len(LANGUAGES)} languages and formats")


# The store: space, permissions, contents, integrity and use.

LITTLE: Final = 200_000_000
TOO_LITTLE: Final = 20_000_000
"""Free bytes for the state directory."""
_CHECK_SECONDS: Final = 5.0


def disk() -> Iterable[Finding]:
    place = settings().state_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    advice = "" if room(free) == "ok" else "; free some space"
    return [Finding(room(free), f"{size(free)} free at {shown(str(place))}{advice}")]


def room(free: int) -> Grade:
    """Grade an amount of free bytes."""
    if free < TOO_LITTLE:
        return "failed"
    return "note" if free < LITTLE else "ok"


def permissions() -> Iterable[Finding]:
    place = settings().state_dir
    if place.exists() and not place.is_dir():
        return [Finding("failed", f"{shown(str(place))} is not a directory; choose another state_dir")]
    commands = open_to_others(place, _database())
    if not commands:
        return [Finding("ok", "only you may read your sessions")]
    return [Finding("note", f"other users may read your sessions; run: {command}") for command in commands]


def sessions() -> Iterable[Finding]:
    with store() as opened:
        rows = opened.rows()
    if settings().store == DEFAULT_STORE:
        place = f", {size(_taken(settings().state_dir))} in {shown(str(settings().state_dir))}"
    else:
        place = f" in {shown(shown_address(settings().store))}"
    found = [Finding("failed", row.complaint) for row in rows if row.complaint]
    return [*found, Finding("ok", f"{len(rows):,} {plural(len(rows), 'session')}{place}")]


def _taken(directory: Path) -> int:
    """Count the bytes of the files below a directory, except what may not be read or has too long a path."""
    total, waiting = 0, [str(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def comparisons() -> Iterable[Finding]:
    """What copies of working trees take, from which changes by commands are told."""
    folder = settings().state_dir / FOLDER
    if not folder.exists():
        return []
    count, taken = len(list(folder.glob("*.db"))), size(_taken(folder))
    places = "1 working directory" if count == 1 else f"{count} working directories"
    what = f"{taken} of the state directory for finding changes by commands, in {places}"
    return [Finding("ok", f"{what}; removed {int(UNUSED_SECONDS // 86_400)} days after the last command there")]


def past() -> Iterable[Finding]:
    """What is kept for rebuilds beside the logs."""
    if settings().store != DEFAULT_STORE or not _database().exists():
        return []
    found = contents_taken(_database(), _CHECK_SECONDS)
    if found is None:
        return [Finding("note", "the data saved for restoring variables could not be measured; see integrity")]
    taken, values = map(size, found)
    limit = size(settings().past_bytes)
    return [
        Finding(
            "ok",
            f"{taken} saved for restoring variables, {values} of it copies of values; past_bytes is "
            f"{limit} for each session",
        )
    ]


SHORT_OF_MEMORY: Final = "the system is short of memory, so there are no checkpoints: rewinds run statements again"
NO_COPIES: Final = "there are no checkpoints on this system: rewinds run statements again"
NO_CHECKPOINTS: Final = "there are no checkpoints (restore_by = re-execution): rewinds run statements again"


def checkpoints() -> Iterable[Finding]:
    """What copies of namespaces may take."""
    values = settings()
    if values.restore_by != "checkpoints":
        return [Finding("ok", NO_CHECKPOINTS)]
    if not ADOPTS_ORPHANS:
        return [Finding("note", NO_COPIES)]
    if is_short():
        return [Finding("note", SHORT_OF_MEMORY)]
    free = free_memory()
    room = "" if free is None else f"; {size(free)} are free"
    return [Finding("ok", f"checkpoints may take {size(values.checkpoint_bytes)} of memory (checkpoint_bytes){room}")]


def server() -> Iterator[Finding]:
    """Look at a PostgreSQL server: its version, the rights there, the tables, and how durable commits are."""
    opened = _server()
    if opened is None:
        return
    with closing(opened):
        found = opened.inspect()
    yield Finding("ok", found.summary)
    yield from (Finding("failed", f"the right {each} is missing; grant it") for each in found.missing_rights)
    yield from (Finding("note", each) for each in found.notes)


def integrity() -> Iterable[Finding]:
    opened = _server()
    if opened is not None:
        with closing(opened):
            found = opened.faults(_CHECK_SECONDS)
        return _integrity(found)
    if not _database().exists():
        return [Finding("note", "there is no database yet")]
    return _integrity(faults(_database(), _CHECK_SECONDS))


def _integrity(found: Sequence[str] | None) -> Iterable[Finding]:
    if found is None:
        return [Finding("note", f"the database is too large to check within {_CHECK_SECONDS:.0f} s")]
    return [Finding("failed", f"damaged: {shown(fault)}") for fault in found] or [
        Finding("ok", "the database is intact")
    ]


def in_use() -> Iterable[Finding]:
    if settings().store == DEFAULT_STORE and not _database().exists():
        return []
    with store() as opened:
        found = opened.owners()
    if not found:
        return [Finding("ok", "no session is in use")]
    return [Finding("ok", f"session {session_id} is in use by {owner}") for session_id, owner in found.items()]


def _server() -> PostgresqlStore | None:
    """Return the store, which the caller closes, if it is in PostgreSQL."""
    if settings().store == DEFAULT_STORE:
        return None
    return cast("PostgresqlStore", open_store(settings().state_dir, SystemClock(), settings().store, settings().tenant))


def _database() -> Path:
    return Path(os.path.realpath(settings().state_dir / DATABASE))


# Statements: the project's environment, search, token ranks, and a worker that runs a statement.

START_SECONDS: Final = 30.0
_SAMPLE: Final = "tokens"


def project() -> Iterable[Finding]:
    found = find_project_environment(str(Path.cwd()), os.environ, settings().python)
    if found.note:
        return [Finding("note", found.note)]
    if not found.import_paths:
        return [
            Finding(
                "note",
                "this directory has no virtual environment; statements use Rewindow's own environment",
            )
        ]
    return [Finding("ok", f"statements import from {', '.join(found.import_paths)}")]


def search() -> Iterable[Finding]:
    found = find_ripgrep(os.environ.get("PATH", ""), (str(Path.cwd()),))
    if found is None:
        return [Finding("note", f"`grep` and `find` cannot search: ripgrep is missing; {INSTALL}")]
    return [Finding("ok", f"searches use {found}")]


def tokens() -> Iterable[Finding]:
    started = time.monotonic()
    ranks = encoding()
    if ranks.decode(ranks.encode(_SAMPLE)) != _SAMPLE:
        return [Finding("failed", "the token ranks of this installation are damaged; reinstall Rewindow")]
    return [Finding("ok", f"token ranks loaded in {(time.monotonic() - started) * 1000:.0f} ms")]


def statement() -> Iterable[Finding]:
    started = time.monotonic()
    zygote = Zygote.spawn()
    try:
        value = anyio.run(_first_statement, zygote)
    finally:
        zygote.close()
    if value != "42":
        return [Finding("failed", f"a statement returned {value!r} instead of 42; report this with the lines above")]
    return [Finding("ok", f"a worker started and ran a statement in {(time.monotonic() - started) * 1000:.0f} ms")]


def left_behind_processes() -> Iterator[Finding]:
    """Processes of killed agents, whose zygotes were killed too.

    They end when this command ends.
    """
    found = left_behind()
    named = ", ".join(f"{pid} ({shown(read(f'/proc/{pid}/comm').decode(errors='replace').strip())})" for pid in found)
    if found:
        yield Finding("note", f"ending processes of a killed agent: {named}")
    else:
        yield Finding("ok", "no process of a killed agent is running")


async def _first_statement(zygote: Zygote) -> str | None:
    async def refuse(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer()

    environment = WorkerEnvironment(zygote)
    with anyio.fail_after(START_SECONDS):
        await environment.start(
            EnvironmentSpec(
                cwd=str(Path.cwd()),
                redactor=redactor(),
                variables=allowed_variables(os.environ, settings().hidden_names),
            )
        )
        request = RunRequest(execution_id=ExecutionId("doctor"), label="<doctor>", source="6 * 7")
        outcome = await environment.run(request, refuse, lambda _stream, _text: None)
    await environment.close()
    return outcome.value


# The sandbox: which layers confine statements, why others are missing, and what statements may do without them.

_OPEN: Final[Mapping[Layer, str]] = {
    "landlock": "change all files that you can change",
    "seccomp": "use the network",
    "seatbelt": "change all files that you can change, and use the network",
    "mounts": (
        "read stored keys and the state of other sessions, change modes, owners and times of your files, and write into"
        " your terminals and the shared memory of your programs. Nothing protects git's configuration and other files"
        " that programs run, so in mode auto statements write only scratch files in a directory that contains such"
        " files"
    ),
}
"""What a statement may do without this layer, if all others are in force."""
_APPARMOR: Final = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_BY_APPARMOR: Final = (
    "To get the layer, allow user namespaces for Rewindow with an AppArmor profile that has the rule `userns,`"
    " (docs/sandbox.md shows one), or for all programs: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
_BY_NAMESPACES: Final = (
    "To get the layer, allow user namespaces: see the sysctl settings user.max_user_namespaces and"
    " kernel.unprivileged_userns_clone, and the settings of a container"
)
_SO_NOT: Final = (
    "so statements cannot write in this directory, even in mode auto; install Rewindow elsewhere (pipx, uv tool)"
)
NO_LANDLOCK: Final = "this kernel has no Landlock (Linux 5.19 or later)"
NOT_HIDDEN: Final = "macOS does not hide them"
_ALL_ASK: Final = "statements run with your permissions, so mode ask asks before each model statement"


def sandbox() -> Iterator[Finding]:
    confined = _confined()
    yield from sandbox_findings(confined.layers, settings().sandbox or "off")
    if is_held(confined.layers):
        yield processes_of(confined.is_apart)
        yield from own_installation_findings(confined.layers, own_installation((os.path.realpath(Path.cwd()),)))


def processes_of(is_apart: bool) -> Finding:
    """Say how the number of a model statement's processes is limited.

    That is done by a process namespace, or by counting.
    """
    if is_apart:
        return Finding(
            "ok",
            f"sandbox, processes: the kernel allows a model's statements {most_tasks():,} processes and threads at a"
            " time, and ends them with their session",
        )
    return Finding(
        "note",
        "sandbox, processes: this system permits no process namespace, so Rewindow counts processes "
        f"four times a second; a statement can exceed {MOST_PROCESSES:,} processes for a moment",
    )


def own_installation_findings(layers: Collection[Layer], found: Installation) -> Iterator[Finding]:
    """Say whether statements of a session in the working directory could write this program itself."""
    if found.open:
        yield Finding(
            "note",
            f"Rewindow runs from {shown(found.open[0])}, which programs of statements could change, {_SO_NOT}",
        )
    elif found.parts and is_bare(layers):
        yield Finding(
            "note",
            f"Rewindow runs from {shown(found.parts[0])}, which programs of statements could change "
            f"without the layer mounts, {_SO_NOT}",
        )
    elif found.parts:
        yield Finding("ok", f"sandboxed statements cannot change Rewindow's own files in {shown(found.parts[0])}")


def sandbox_findings(layers: Sequence[Layer], rule: str = "auto") -> Iterator[Finding]:
    """Yield the findings for a worker with these layers.

    Args:
        rule: the setting `sandbox`.
    """
    yield _summary(is_held(layers), rule, is_whole=not is_bare(layers))
    for layer in MISSING:
        if layer in layers:
            yield Finding("ok", f"sandbox, layer {layer}: in force")
        else:
            reason = MISSING[layer]() or "the layer could not be entered"
            advice = f". {way_to_mounts()}" if layer == "mounts" else ""
            yield Finding("note", f"sandbox, layer {layer}: {reason}; without it statements may {_OPEN[layer]}{advice}")
    if "landlock" in layers:
        for part in PARTS:
            if part not in layers:
                (what,) = abilities((part,), bare=is_bare(layers))
                yield Finding(
                    "note", f"sandbox: without Landlock version {landlock.SINCE[part]}, statements may {what}"
                )


def way_to_mounts(restriction: str = _APPARMOR) -> str:
    """Say how to get the layer of mounts.

    Args:
        restriction: the file of the setting by which AppArmor forbids user namespaces, as Ubuntu does.
    """
    return _BY_APPARMOR if read(restriction).strip() == b"1" else _BY_NAMESPACES


def _summary(can_hold: bool, rule: str, *, is_whole: bool) -> Finding:
    """Say what the layers mean for a user of a model."""
    if rule == "off":
        can = "could" if can_hold else "cannot"
        return Finding(
            "note", f"no sandbox, because the setting disables it (the kernel {can} sandbox statements): {_ALL_ASK}"
        )
    if can_hold and not is_whole:
        return Finding(
            "note",
            "a model's statements run in a sandbox, but without the layer mounts: stored keys and the state of other"
            " sessions are readable, and in mode auto statements cannot write beside git's configuration",
        )
    if can_hold:
        return Finding("ok", "a model's statements run in a sandbox: in mode ask, only their changes need permission")
    if rule == "required":
        return Finding(
            "failed", "this kernel cannot sandbox statements, and sandbox = required: no model statement will run"
        )
    return Finding("note", f"no sandbox, because this kernel cannot sandbox statements: {_ALL_ASK}")


def others() -> Iterator[Finding]:
    """Whether statements outside the sandbox can see other processes."""
    if settings().allow_sudo:
        yield Finding(
            "note",
            "statements can read your other processes, because allow_sudo permits it; only "
            "Rewindow's processes are hidden",
        )
    elif not hides_processes():
        missing = NO_LANDLOCK if kernel.AVAILABLE else NOT_HIDDEN
        yield Finding(
            "note", f"statements can read your other processes, because {missing}; only Rewindow's processes are hidden"
        )
    else:
        yield Finding("ok", "statements cannot read other processes, such as the program that started Rewindow")


class _Confined(NamedTuple):
    """The layers of a worker, and whether its process namespace is below ours."""

    layers: tuple[Layer, ...]
    is_apart: bool


def _confined() -> _Confined:
    """Start a worker to find out what confines it."""
    zygote = Zygote.spawn()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return anyio.run(_layers, zygote, os.path.realpath(scratch))
    finally:
        zygote.close()


async def _layers(zygote: Zygote, scratch: str) -> _Confined:
    environment = WorkerEnvironment(zygote)
    variables = allowed_variables(os.environ, settings().hidden_names)
    try:
        with anyio.fail_after(START_SECONDS):
            domain = Domain(scratch=scratch)
            spec = EnvironmentSpec(cwd=str(Path.cwd()), redactor=redactor(), variables=variables, domain=domain)
            await environment.start(spec)
        return _Confined(tuple(environment.layers), _depth(environment.pid or "self") > _depth("self"))
    finally:
        await environment.close()


def _depth(pid: int | str) -> int:
    """Count the process namespaces of a process, from that of /proc on."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return next((len(line.split()) for line in lines if line.startswith(b"NSpid:")), 0)


CHECKS: Final[tuple[tuple[str, Callable[[], Iterable[Finding]]], ...]] = (
    ("python", python),
    ("system", system),
    ("configuration", configuration),
    ("model", model),
    ("secrets", secrets),
    ("project", project),
    ("search", search),
    ("disk", disk),
    ("permissions", permissions),
    ("server", server),
    ("store", sessions),
    ("comparisons", comparisons),
    ("past", past),
    ("checkpoints", checkpoints),
    ("integrity", integrity),
    ("in use", in_use),
    ("tokens", tokens),
    ("outlines", outlines),
    ("left behind", left_behind_processes),
    ("worker", statement),
    ("sandbox", sandbox),
    ("other processes", others),
)


_COLOURS: Final = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "failed": typer.colors.RED}

_EXACT: Final = ("check", "grade")
"""Fields with a fixed set of values, which need no redaction."""


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
) -> None:
    """Check that sessions can be saved and statements can run."""
    check_formats(as_json, as_lines)
    working_directory()  # raises an error before the checks that need it
    failed: set[str] = set()
    rows: list[dict[str, str]] = []
    for name, check in CHECKS:
        for finding in _findings(check):
            row = {"check": name, "grade": finding.grade, "text": finding.text}
            if as_json:
                rows.append(row)
            elif as_lines:
                print_json(row, _EXACT)
            elif finding.text not in failed:  # an invalid setting fails every check that reads it
                typer.echo(f"{typer.style(f'{finding.grade:>6}', fg=_COLOURS[finding.grade])}  {visible(finding.text)}")
            if finding.grade == "failed":
                failed.add(finding.text)
    if as_json:
        print_json_rows(rows, _EXACT, as_lines=False)
    if failed:
        raise typer.Exit(1)


def _findings(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except EngineError as error:
        return [Finding("failed", str(error))]
    except OSError as error:
        named = f": {error.filename}" if error.filename else ""
        return [Finding("failed", f"{error.strerror or error}{named}")]
