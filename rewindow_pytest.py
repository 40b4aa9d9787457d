"""A pytest plugin: `pytest --acp-agent "CMD"` runs an item for each requirement of the conformance suite for agents.

`--acp-client` and `--mcp-server` do the same for clients and servers. KINDS has a row for each.

Every pytest run in an environment with Rewindow loads this module, so it must be cheap and must not break other
projects. A project may have its own `conformance` or `engine` package. The plugin therefore imports none of our
packages: the requirements and verdicts come from subprocesses with only ours on their path.

The first item runs the suite once for all selected requirements, with parallel scenarios. The other items read its
report. Workers of pytest-xdist share the report in a folder that the controlling process creates.
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
    """A suite with its pytest options."""

    command: str
    """The command of `rewindow-conformance`."""
    option: str
    """The option with the program's command line."""
    extra_option: str
    """The option with further options for the command."""
    program: str
    """What messages call the program."""


KINDS: Final = (
    Kind("acp", "--acp-agent", "--acp-options", "agent"),
    Kind("acp-client", "--acp-client", "--acp-client-options", "client"),
    Kind("mcp", "--mcp-server", "--mcp-options", "server"),
)
_HOME: Final = Path(__file__).resolve().parent
_FOLDER: Final = "rewindow_conformance_folder"

# Isolated, and after the standard library only our folder, whatever the project's PYTHONPATH contains.
_START: Final = """\
import site, sys
sys.path.append(sys.argv.pop(1))
site.main()
from rewindow_startup import rewindow_conformance_once
rewindow_conformance_once()
"""

_folder = pytest.StashKey[str]()
_reports = pytest.StashKey[dict[str, dict[str, Any]]]()
"""Reports, by command."""


class _FailedError(Exception):
    """Raised in a failing item. Only its text is shown, because no line of Python is to blame."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. Without them, the plugin does nothing."""
    group = parser.getgroup("rewindow", "conformance to agent protocols (rewindow)")
    for kind in KINDS:
        protocol = kind.command.partition("-")[0].upper()
        text = f"judge the {kind.program} that this command line starts, over {protocol}"
        group.addoption(kind.option, metavar="CMD", help=text)
        example = f"{kind.extra_option}='--timeout 30 --env KEY=x'"
        text = f"options of `rewindow-conformance {kind.command}`: {example}"
        group.addoption(kind.extra_option, metavar="OPTIONS", default="", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder for the reports, or use that of the controlling process."""
    kinds = _wanted(config)
    if not kinds:
        return
    for kind in kinds:
        _words(config, kind.extra_option)
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
    """Tell a pytest-xdist worker the folder."""
    if _folder in node.config.stash:
        node.workerinput[_FOLDER] = node.config.stash[_folder]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the items before other hooks select, because they belong to no file."""
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
        """Return an item for each requirement, in the registry's order."""
        command = _command("", "list", "--suite", self._kind.command, "--json")
        listed = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 -- our own program
        if listed.returncode:
            raise self.CollectError(f"the requirements cannot be listed: {_text(listed.stderr)}")
        make = cast("Any", RequirementItem).from_parent
        return [make(self, name=row["id"], row=row, kind=self._kind) for row in json.loads(listed.stdout)]


class RequirementItem(pytest.Item):
    """A requirement. It passes, fails, or is skipped if it does not apply or does not decide."""

    def __init__(self, *, row: dict[str, Any], kind: Kind, **others: Any) -> None:
        super().__init__(**others)  # pyright: ignore[reportUnknownMemberType]
        self.kind = kind
        self._text: str = row["text"]
        self.extra_keyword_matches.update({row["level"], row["scenario"] or "any-traffic"})

    def runtest(self) -> None:
        """Report the verdict of the suite's run."""
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
        """Return the failure as the command's terminal report shows it."""
        return str(excinfo.value) if isinstance(excinfo.value, _FailedError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the title of a failure."""
        return self.path, None, f"{self.name}: {self._text}"


def _judge(session: pytest.Session, kind: Kind) -> dict[str, Any]:
    """Return the shared report, with its results by requirement."""
    config = session.config
    path = Path(config.stash[_folder]) / f"{kind.command}.json"
    items = [item for item in session.items if isinstance(item, RequirementItem) and item.kind == kind]
    chosen = [word for item in items for word in ("-k", item.name)]
    options = [*_words(config, kind.extra_option), *chosen, "--json", str(path)]
    command = _command(str(path), kind.command, *options, "--", *_words(config, kind.option))
    errors = _run(command, config.invocation_params.dir)
    try:
        report = json.loads(path.read_bytes())
    except OSError:
        return {"obstacle": errors or "the run was interrupted"}
    return {**report, "results": {result["id"]: result for result in report["results"]}}


def _run(command: list[str], cwd: Path) -> str:
    """Run to the end and return standard error. Closing the input would end the run early, with its programs."""
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
    """Escape control characters of foreign text."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
