"""A bare git repository on this machine, for sessions with clones of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ENVIRON: Final = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": f"ann@{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
FILES: Final = {
    "a.txt": "one\n",
    "gone.txt": "one\n",
    "run.sh": "echo\n",
    "deep/b.txt": "one\n",
    ".gitignore": "built\n",
}


def git(*arguments: str, at: Path) -> str:
    """What git prints."""
    command = ["git", "-C", str(at), *arguments]
    return subprocess.run(command, env=ENVIRON, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


class Origin:
    """A bare repository at `path`, with a branch `main`. Commits are made in `copy`, beside it."""

    def __init__(self, folder: Path, template: Origin | None = None) -> None:
        """`template` is copied, which is quicker."""
        self.path = folder / "origin.git"
        self.copy = folder / "copy"
        if template is not None:
            shutil.copytree(template.path.parent, folder)
            self.commit = template.commit
            return
        for each in (self.path, self.copy):
            each.mkdir(parents=True)
        git("init", "--quiet", "--bare", "--initial-branch=main", at=self.path)
        git("init", "--quiet", "--initial-branch=main", at=self.copy)
        git("remote", "add", "origin", "../origin.git", at=self.copy)
        self.commit = self.push(FILES)

    def push(self, files: dict[str, str], *arguments: str, branch: str = "main") -> str:
        """Commit files with these texts, push them, and return the commit."""
        for name, text in files.items():
            (self.copy / name).parent.mkdir(exist_ok=True)
            (self.copy / name).write_text(text)
        git("add", "--all", at=self.copy)
        git("commit", "--quiet", "--message=files", *arguments, at=self.copy)
        git("push", "--quiet", "--force", "origin", f"HEAD:{branch}", at=self.copy)
        return git("rev-parse", "HEAD", at=self.copy)

    def forget(self) -> None:
        """Remove the commits that no branch leads to."""
        git("reflog", "expire", "--expire=now", "--all", at=self.path)
        git("gc", "--quiet", "--prune=now", at=self.path)


def state_of(clone: Path) -> tuple[str, ...]:
    """What differs from the last commit, what is untracked, that commit, and the branch."""
    return (
        git("diff", "HEAD", at=clone),
        git("status", "--short", "--untracked-files=all", at=clone),
        git("rev-parse", "HEAD", at=clone),
        git("rev-parse", "--abbrev-ref", "HEAD", at=clone),
    )
