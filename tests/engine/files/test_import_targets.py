"""Which files imports lead to, by their names and paths alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.import_targets import ImportTargets, targets_of

PATHS = (
    "engine/__init__.py",
    "engine/ids.py",
    "engine/nodes/__init__.py",
    "engine/nodes/base.py",
    "engine/nodes/ids.py",
    "v1/version.py",
    "version.py",
    "web/src/index.ts",
    "web/src/bar.tsx",
    "web/src/z/index.ts",
    "java/com/acme/Store.java",
    "go/store/open.go",
    "go/store/close.go",
    "c/include/foo/bar.h",
    "rust/src/nodes/mod.rs",
    "rust/src/nodes/base.rs",
    "php/src/Acme/Row.php",
)
TARGETS = ImportTargets(PATHS)


@pytest.mark.parametrize(
    ("path", "name", "found"),
    [
        ("engine/nodes/base.py", "..ids", ["engine/ids.py"]),
        ("engine/nodes/base.py", ".ids", ["engine/nodes/ids.py"]),
        ("engine/nodes/base.py", "engine.nodes.ids", ["engine/nodes/ids.py"]),
        ("engine/ids.py", "engine.nodes", ["engine/nodes/__init__.py"]),
        ("v1/main.py", "pydantic.v1.version", ["v1/version.py"]),
        ("main.py", "pydantic.version", ["version.py"]),
        ("main.py", "os.path", []),
        ("web/src/index.ts", "./bar", ["web/src/bar.tsx"]),
        ("web/src/z/index.ts", "../bar.js", ["web/src/bar.tsx"]),
        ("web/src/bar.tsx", "./z", ["web/src/z/index.ts"]),
        ("java/com/acme/App.java", "com.acme.Store", ["java/com/acme/Store.java"]),
        ("go/app/main.go", "example.com/go/store", ["go/store/close.go", "go/store/open.go"]),
        ("c/src/main.c", "foo/bar.h", ["c/include/foo/bar.h"]),
        ("rust/src/main.rs", "crate::nodes::base::Node", ["rust/src/nodes/base.rs"]),
        ("php/src/App.php", "Acme\\Row", ["php/src/Acme/Row.php"]),
        ("main.py", ".......ids", []),
        ("main.py", "", []),
        ("main.py", "...", []),
    ],
)
def test_an_import_leads_to_the_file_or_folder_that_it_names(path: str, name: str, found: list[str]) -> None:
    assert sorted(TARGETS.of(path, [name])) == found


def test_no_file_imports_itself() -> None:
    assert TARGETS.of("engine/ids.py", ["engine.ids", ".ids"]) == frozenset()


@given(
    st.dictionaries(
        st.text("ab/._é", min_size=1, max_size=8), st.lists(st.text("ab/.\\:_é*{}", max_size=8), max_size=4), max_size=9
    )
)
def test_whatever_imports_and_paths_are_called_they_lead_to_files_that_there_are(files: dict[str, list[str]]) -> None:
    for path, found in targets_of(files).items():
        assert found <= set(files) - {path}
