"""Small coding tasks on real projects: what the user asks, how a model solves them, and what has to be there then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

DATA: Final = Path(__file__).parent.parent / "data"
BIN: Final = Path(sys.executable).parent
SECONDS: Final = 60

Style = Literal["tools", "plain"]
"""Whether the model uses the tools of statements, or what Python has for the same."""


class Reply(NamedTuple):
    """What a model says, and the statement that it asks for then."""

    text: str
    source: str


class CodingTask(NamedTuple):
    """A task: the user's request, the replies with statements, and the last one without."""

    project: str
    request: str
    replies: tuple[Reply, ...]
    summary: str

    def script(self) -> list[dict[str, Any]]:
        """The replies as the lines of a scripted model."""
        return [*({"text": text, "statement": source} for text, source in self.replies), {"text": self.summary}]

    def copy(self, place: Path) -> Path:
        """A copy of the project, as it is before anybody works on it."""
        return Path(shutil.copytree(DATA / "projects" / self.project, place))


def coding_task(name: str, style: Style = "tools", project: str = "cachetools") -> CodingTask:
    """The task of that name below `tests/data/tasks`."""
    folder = DATA / "tasks" / name
    sources = [path.read_text("utf-8") for path in sorted((folder / style).glob("*.py"))]
    replies = [Reply(source.partition("\n")[0].removeprefix("# "), source.partition("\n")[2]) for source in sources]
    request, summary = ((folder / f"{part}.txt").read_text("utf-8").strip() for part in ("request", "summary"))
    return CodingTask(project, request, tuple(replies), summary)


def environment() -> dict[str, str]:
    """What makes the `python` of commands this one, as in a shell where its environment is active."""
    return {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


def suite_passes(project: Path) -> bool:
    """Whether all tests of a project pass."""
    done = subprocess.run(
        ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, **environment(), "PYTHONPATH": "src"},
        capture_output=True,
        timeout=SECONDS,
    )
    return done.returncode == 0


def texts(project: Path) -> dict[str, str]:
    """Every file of a project, but for what running it leaves."""
    files = (path for path in sorted(project.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(project)): path.read_text("utf-8") for path in files}
