"""The state of files, links and directories that the log keeps."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
import xxhash

from engine.core.execution import DIRECTORY, LINK
from engine.session.tool_records import Entry, FileState, directories_and_links, file_state, link_state


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_within_the_limit_is_read(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "a"
    place.write_bytes(content)
    found = file_state(str(place), 3)
    assert (found.data, found.digest, found.reason) == (content, xxhash.xxh3_64_hexdigest(content), "")


def test_a_file_above_the_limit_has_its_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    found = file_state(str(tmp_path / "a"), 2)
    assert (found.data, found.digest) == (None, found.mark)
    assert found.mark
    assert found.reason


def test_what_is_not_a_file_has_no_state_and_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    before = psutil.Process().num_fds()
    states = [file_state(str(tmp_path / name), 9) for name in ("file", "link", "directory", "gone", "file/below")]
    assert psutil.Process().num_fds() <= before
    assert states[1:] == [FileState()] * 4
    assert states[0].data == b"abc"


def test_directories_and_links_are_found_at_above_and_below_a_path(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "file").write_bytes(b"abc")
    (top / "sub" / "link").symlink_to("file")
    (top / "sub").chmod(0o750)
    (tmp_path / "beside").mkdir()
    found = directories_and_links([str(top)])
    below = {os.path.relpath(path, tmp_path): entry for path, entry in found.items() if path.startswith(f"{tmp_path}/")}
    assert below.keys() == {"top", "top/sub", "top/sub/deep", "top/sub/link"}
    assert below["top/sub"] == Entry(DIRECTORY, 0o750)
    link = below["top/sub/link"]
    assert link == Entry(f"{LINK}{xxhash.xxh3_64_hexdigest(b'file')}", None, b"file")
    assert link_state(str(top / "sub" / "link")) == FileState(link.digest, data=b"file")
    assert link_state(str(top / "sub" / "file")) == FileState()
    assert str(tmp_path) in found
