"""Patches that git applies, in both directions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engine.session.past.patches import FileDelta, patch

TEXT, BINARY, FILE = b"one\ntwo", b"\xff\0\1", 0o100644


@pytest.mark.parametrize("before", [TEXT, BINARY, b"", None])
@pytest.mark.parametrize("after", [TEXT, BINARY, b"three\n", None])
def test_git_applies_a_patch_and_takes_it_back(tmp_path: Path, before: bytes | None, after: bytes | None) -> None:
    path = tmp_path / "a b"
    modes = [None if content is None else FILE for content in (before, after)]
    made = patch([FileDelta(str(path), before, after, *modes)], str(tmp_path))
    if before == after:
        assert made == ""
        return
    if before is not None:
        path.write_bytes(before)
    for options, content in (([], after), (["-R"], before)):
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", "apply", "--whitespace=nowarn", *options]
        subprocess.run(command, cwd=tmp_path, input=made.encode(), env=environment, check=True, timeout=60)
        assert (path.read_bytes() if path.exists() else None) == content
