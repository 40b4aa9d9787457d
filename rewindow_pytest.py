"""A pytest plugin: `pytest --acp-agent "CMD"` runs an item for each requirement of the conformance suite for agents.

`--acp-client` and `--mcp-server` do so for clients and for servers: KINDS has a row for each.

Every pytest run of an environment that Rewindow is installed in loads this module, so that it must cost nothing and
break nothing there. It imports none of our packages, and a project may have a `conformance` or an `engine` of its own:
both the list of requirements and the verdicts come from processes that have ours alone on their path.

The suite runs once in a session, when the first of its items does, for the requirements that were selected: it runs
scenarios at once, and those alone whose moments decide, which items one after the other could not. The other items read
its report. Workers of pytest-xdist share it by a folder that the controlling process makes.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, cast

import pytest


class Kind(NamedTuple):
    """A suite that an option runs."""

    command: str
    """Of `rewindow-conformance`."""
    option: str
    """Names the program."""
    more: str
    """The option that holds options of the command."""
    program: str
    """What such a program is called."""


KINDS: Final = (
    Kind("acp", "--acp-agent", "--acp-options", "agent"),
    Kind("acp-client", "--acp-client", "--acp-client-options", "client"),
    Kind("mcp", "--mcp-server", "--mcp-options", "server"),
)
_HOME: Final = Path(__file__).resolve().parent
_FOLDER: Final = "rewindow_conformance_folder"

# Isolated, and before any other folder than the standard library's: whatever the project or its PYTHONPATH have.
_START: Final = """\
import site, sys
sys.path.append(sys.argv.pop(1))
site.main()
from rewindow_startup import rewindow_conformance_once
rewindow_conformance_once()
"""

_folder = pytest.StashKey[str]()
_reports = pytest.StashKey[dict[str, dict[str, Any]]]()
"""By the command whose report it is."""


class _FailedError(Exception):
    """Raised in an item that fails; its text is all that is shown, because no line of Python is to blame."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options; nothing else happens where none is given."""
    group = parser.getgroup("rewindow", "conformance to agent protocols (rewindow)")
    for kind in KINDS:
        protocol = kind.command.partition("-")[0].upper()
        text = f"judge the {kind.program} that this command line starts, over {protocol}"
        group.addoption(kind.option, metavar="CMD", help=text)
        example = f"{kind.more}='--timeout 30 --env KEY=x'"
        text = f"options of `rewindow-conformance {kind.command}`: {example}"
        group.addoption(kind.more, metavar="OPTIONS", default="", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder that holds the reports, or takes that of the controlling process."""
    kinds = _wanted(config)
    if not kinds:
        return
    for kind in kinds:
        _words(config, kind.more)
        if not _words(config, kind.option):
            raise pytest.UsageError(f"{kind.option}: name the command that starts the {kind.program}")
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if _FOLDER in given:
        config.stash[_folder] = given[_FOLDER]
        return
    folder = TemporaryDirectory(prefix="rewindow-pytest-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    config.stash[_folder] = folder.name


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist where the report is."""
    if _folder in node.config.stash:
        node.workerinput[_FOLDER] = node.config.stash[_folder]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the items, before anybody selects among them: they come from no file that could be collected."""
    if _folder in config.stash:
        for kind in _wanted(config):
            name = f"conformance.{kind.command}"
            suite = cast("Any", Requirements).from_parent(session, name=name, nodeid=name, kind=kind)
            items.extend(session.genitems(suite))


def _wanted(config: pytest.Config) -> list[Kind]:
    return [kind for kind in KINDS if config.getoption(kind.option) is not None]


class Requirements(pytest.Collector):
    """The requirements of a suite."""

    def __init__(self, *, kind: Kind, **others: Any) -> None:
        super().__init__(**others)  # pyright: ignore[reportUnknownMemberType]
        self._kind = kind

    def collect(self) -> list[pytest.Item]:
        """An item for each, in the registry's order."""
        command = _command("", "list", "--suite", self._kind.command, "--json")
        listed = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 -- our own program
        if listed.returncode:
            raise self.CollectError(f"the requirements cannot be listed: {_text(listed.stderr)}")
        make = cast("Any", RequirementItem).from_parent
        return [make(self, name=row["id"], row=row, kind=self._kind) for row in json.loads(listed.stdout)]


class RequirementItem(pytest.Item):
    """One requirement. It passes, fails, or is skipped where it does not apply or does not decide."""

    def __init__(self, *, row: dict[str, Any], kind: Kind, **others: Any) -> None:
        super().__init__(**others)  # pyright: ignore[reportUnknownMemberType]
        self.kind = kind
        self._text: str = row["text"]
        self.extra_keyword_matches.update({row["level"], row["scenario"] or "any-traffic"})

    def runtest(self) -> None:
        """Says what the report says."""
        reports = self.config.stash.setdefault(_reports, {})
        if self.kind.command not in reports:
            reports[self.kind.command] = _judge(self.session, self.kind)
        report = reports[self.kind.command]
        if report["obstacle"]:
            raise _FailedError(f"the {self.kind.program} was not judged: {_visible(report['obstacle'])}")
        result = report["results"][self.name]
        if result["violation"]:
            raise _FailedError("\n".join([_visible(result["reason"]), *result["report"]]))
        if result["outcome"] != "pass":
            pytest.skip(f"{self.name} {result['outcome']}: {_visible(result['reason'])}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text of a failure, as the terminal report of the command has it."""
        return str(excinfo.value) if isinstance(excinfo.value, _FailedError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The title over a failure."""
        return self.path, None, f"{self.name}: {self._text}"


def _judge(session: pytest.Session, kind: Kind) -> dict[str, Any]:
    """The report of the run that all workers share, with its results by requirement."""
    config = session.config
    path = Path(config.stash[_folder]) / f"{kind.command}.json"
    items = [item for item in session.items if isinstance(item, RequirementItem) and item.kind == kind]
    chosen = [word for item in items for word in ("-k", item.name)]
    options = [*_words(config, kind.more), *chosen, "--json", str(path)]
    command = _command(str(path), kind.command, *options, "--", *_words(config, kind.option))
    errors = _run(command, config.invocation_params.dir)
    try:
        report = json.loads(path.read_bytes())
    except OSError:
        return {"obstacle": errors or "the run was interrupted"}
    return {**report, "results": {result["id"]: result for result in report["results"]}}


def _run(command: list[str], cwd: Path) -> str:
    """Runs to the end; returns what it said on standard error. Closing its input ends it early, with what it runs."""
    with subprocess.Popen(  # noqa: S603 -- our own program, and the user's command
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd
    ) as process:
        assert process.stdin
        assert process.stderr
        try:
            return _text(process.stderr.read())
        finally:
            process.stdin.close()


def _command(report: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _START, str(_HOME), report, *arguments]


def _words(config: pytest.Config, option: str) -> list[str]:
    try:
        return shlex.split(str(config.getoption(option)))
    except ValueError as error:
        raise pytest.UsageError(f"{option}: {error}") from None


def _text(data: bytes) -> str:
    return _visible(" ".join(data.decode(errors="replace").split()).removeprefix("rewindow-conformance: "))


def _visible(text: str) -> str:
    """Text of a foreign program that cannot act on a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
