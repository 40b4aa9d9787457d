"""The files whose outlines are kept, and how an outline reads there. `python -m tests.support.outlines` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.grammars import GrammarError, outline_by_grammar
from engine.files.outline.languages import language_of
from engine.files.outline.model import Outline

FOLDER = Path(__file__).parents[1] / "data" / "outlines"
KEPT = ".outline"


def samples() -> list[Path]:
    """One real file in each language, or more."""
    return [path for path in sorted(FOLDER.iterdir()) if path.suffix != KEPT and path.name != "NOTICE.md"]


def outlined(text: bytes, path: str) -> Outline:
    """By the grammar, which in a test may take as long as it likes; by indentation where that finds nothing."""
    language = language_of(path, text)
    assert language is not None
    try:
        return outline_by_grammar(text, language, path, lambda: False, references=True)
    except GrammarError:
        return outline_by_indentation(text)


def readable(outline: Outline) -> str:
    """All of an outline, one symbol to a line."""
    return "".join(f"{line}\n".replace(" \n", "\n") for line in _lines(outline))


def _lines(outline: Outline) -> Iterator[str]:
    flags = ("" if outline.complete else ", cut short") + (", with errors" if outline.has_errors else "")
    yield f"{outline.language}, {outline.lines} lines{flags}"
    yield f"about: {outline.doc}"
    yield f"imports: {', '.join(outline.imports)}"
    yield f"from outside: {', '.join(outline.from_outside)}"
    used = sorted(outline.references.items(), key=lambda pair: (-pair[1], pair[0]))[:12]
    yield f"uses: {', '.join(f'{name} {count}' for name, count in used)}"
    for symbol in outline.symbols:
        lines = f"{symbol.first_line}-{symbol.last_line}"
        shown = "" if symbol.public else "(not public) "
        yield f"{'    ' * symbol.depth}{lines} {symbol.kind} {symbol.qualified}: {shown}{symbol.signature}"
        if symbol.doc:
            yield f"{'    ' * symbol.depth}  -- {symbol.doc}"


def main() -> None:
    for path in samples():
        path.with_name(path.name + KEPT).write_text(readable(outlined(path.read_bytes(), path.name)))


if __name__ == "__main__":
    main()
