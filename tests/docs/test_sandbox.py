"""The page on the sandbox says of each kind of attack what the tests of the sandbox show."""

from __future__ import annotations

from pathlib import Path

from tests.support.attacks import KINDS, Kind

PAGE = Path(__file__).parents[2] / "docs/sandbox.md"


def test_the_page_says_what_holds_each_kind_of_attack() -> None:
    _, _, behind = PAGE.read_text().partition("| a statement tries to | held by |\n|---|---|\n")
    table, _, _ = behind.partition("\n\n")
    assert table.splitlines() == [row(kind) for kind in KINDS.values()]


def row(kind: Kind) -> str:
    holders = [f"`{each}`" if each != "privileges" else each for each in kind.held_by]
    since = {3: "", 4: " from Linux 6.7 on", 6: " from Linux 6.12 on", 9: " from Linux 7.1 on"}[kind.since]
    held = ", ".join(each + since * (each == "`landlock`") for each in holders) or "nothing"
    return f"| {kind.does} | {held}{besides(kind)} |"


def besides(kind: Kind) -> str:
    found = [
        f"for {who} {', '.join(each if each == 'privileges' else f'`{each}`' for each in holders)} too"
        for who, holders in (("root", kind.as_root), ("others", kind.as_user))
        if holders
    ]
    return f"; {' and '.join(found)}" if found else ""
