"""What the host looks at for a statement is where it was said to be, whatever was put above it meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from engine.session.tool_records import FileState, file_state

LIMIT = 1 << 20


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert file_state(str(tmp_path / "file"), LIMIT).data == b"text"


def test_a_link_above_the_name_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("theirs")
    (tmp_path / "work").symlink_to("secret")
    assert file_state(str(tmp_path / "work/file"), LIMIT) == FileState()
    assert file_state(str(tmp_path / "secret/../secret/file"), LIMIT) == FileState()


def test_what_speaks_of_this_process_is_no_file() -> None:
    assert file_state(f"/proc/{os.getpid()}/environ", LIMIT) == FileState()
    assert file_state("/proc/self/environ", LIMIT) == FileState()
