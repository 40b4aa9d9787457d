"""Changes of a file as a patch in Git's format, with absolute paths and without the prefixes `a/` and `b/`.

Pure. A change has some lines around it, so each one is a hunk. Source: ACP v2 schema, `DiffPatchFormat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acp_adapter.updates.shapes import Diff
from engine.core.diff import opcodes

_NOTHING: Final = "/dev/null"
_NO_NEWLINE: Final = "\\ No newline at end of file"
_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


def git_patch(diffs: Sequence[Diff]) -> str:
    """Return the patch of one file, from its changed regions in order."""
    first = diffs[0]
    path = quoted(first.path)
    is_new, is_gone = first.old_text is None, first.is_removal
    lines = [f"diff --git {path} {path}"]
    lines += ["new file mode 100644"] * is_new + ["deleted file mode 100644"] * is_gone
    if any(diff.old_text or diff.new_text for diff in diffs):
        lines += [f"--- {_NOTHING if is_new else path}", f"+++ {_NOTHING if is_gone else path}"]
    moved = 0
    for diff in diffs:
        before, after = _lines(diff.old_text or ""), _lines(diff.new_text)
        if not (before or after):
            continue  # an empty file
        lines.append(f"@@ -{_span(diff.line, before)} +{_span(diff.line + moved, after)} @@")
        lines += _hunk(before, after)
        moved += len(after) - len(before)
    return "\n".join(lines) + "\n"


def quoted(path: str) -> str:
    """Return a path as Git writes it: in quotation marks, with escapes, if it has unusual characters."""
    written = "".join(map(_escaped, path))
    return path if written == path else f'"{written}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if " " <= character <= "~":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _lines(text: str) -> list[str]:
    """Split at newlines alone, as Git does; each line keeps its newline."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + [pieces[-1]] * bool(pieces[-1])


def _span(first: int, lines: Sequence[str]) -> str:
    return f"{first if lines else max(first - 1, 0)},{len(lines)}"


def _hunk(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for code in opcodes(before, after):
        if code.tag == "equal":
            yield from _marked(" ", before[code.i1 : code.i2])
        else:
            yield from _marked("-", before[code.i1 : code.i2])
            yield from _marked("+", after[code.j1 : code.j2])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_NEWLINE
