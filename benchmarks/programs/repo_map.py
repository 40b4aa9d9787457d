"""Aider's repo map of a folder: `python repo_map.py FOLDER BUDGET [NAME]`, with the Python of the peer's environment.

`NAME` is an identifier that the user has mentioned. The budget is in tokens of our ranks, because aider's counting
would download its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from aider.io import InputOutput
from aider.repomap import RepoMap

from engine.core.tokens.ranks import encoding


class Model:
    """What a repo map needs of a model."""

    def token_count(self, text: str) -> int:
        return len(encoding().encode_ordinary(text))


def main(folder: str, budget: str, *names: str) -> None:
    mapper = RepoMap(
        map_tokens=int(budget), root=folder, main_model=Model(), io=InputOutput(yes=True), map_mul_no_files=1
    )
    files = [str(path) for path in sorted(Path(folder).rglob("*.py"))]
    print(mapper.get_repo_map([], files, mentioned_idents=set(names)) or "")


if __name__ == "__main__":
    main(*sys.argv[1:])
