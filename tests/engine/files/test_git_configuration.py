"""Which files of the project the configuration of a git repository names as programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.files.git_configuration import named_by

PROGRAM = "zz/t.sh"


def named(tmp_path: Path, configuration: str) -> set[str]:
    root = Path(os.path.realpath(tmp_path))
    (root / ".git").mkdir()
    (root / ".git/config").write_text(configuration)
    for name in (PROGRAM, "zz/deep/x", "pkg/__main__.py", "PROG", "late.js"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return {os.path.relpath(each, root) for each in named_by(str(root / ".git"), str(root), (str(root),))}


@pytest.mark.parametrize(
    ("configuration", "program"),
    [
        ('[remote "o"]\n\turl = ext::sh zz/t.sh', PROGRAM),
        ('[remote "o"]\n\tpushurl = ext::sh% zz/t.sh', PROGRAM),
        ('[branch "main"]\n\tremote = ext::sh zz/t.sh', PROGRAM),
        ('[url "ext::sh zz/t.sh "]\n\tinsteadOf = x:', PROGRAM),
        ('[url "ext::sh zz"]\n\tinsteadOf = x:\n[remote "o"]\n\turl = x:/t.sh', PROGRAM),
        ("[alias]\n\tx = !sh zz/'t'.sh", PROGRAM),
        ('[alias]\n\tx = !sh zz/\\"t\\".sh', PROGRAM),
        ("[alias]\n\tx = !sh zz/\\\\t.sh", PROGRAM),
        ("[alias]\n\tx = !awk -fPROG", "PROG"),
        ("[alias]\n\tx = !cd zz && cd deep && ./x", "zz/deep/x"),
        ("[alias]\n\tx = !python3 pkg", "pkg/__main__.py"),
        ("[alias]\n\tx = !node pkg", "pkg/index.js"),
        ("[alias]\n\tx = !node zz/late", "zz/late.js"),
        ("[alias]\n\tx = !node late", "late.js"),
        ("[alias]\n\tx = !ruby -r./zz/late", "zz/late.rb"),
        ("[alias]\n\tx = -c core.hooksPath=zz commit", "zz"),
        ("[alias]\n\tx = !git -c core.hooksPath='zz' commit", "zz"),
        ("[alias]\n\tx = -c remote.o.url=ext::zz/t.sh fetch o", PROGRAM),
        ("[remotes]\n\tdefault = o ext::zz/t.sh", PROGRAM),
        ("[remote]\n\tpushDefault = ext::zz/t.sh", PROGRAM),
    ],
)
def test_program_is_found_however_it_is_named(tmp_path: Path, configuration: str, program: str) -> None:
    assert program in named(tmp_path, configuration)


def test_plain_urls_name_no_program(tmp_path: Path) -> None:
    urls = '[remote "o"]\n\turl = zz/t.sh\n\tpushurl = https://host/zz/t.sh\n[branch "main"]\n\tremote = o'
    assert named(tmp_path, urls) == set()
