"""Whether outlines can be made: the grammar of each language, and `ctags` for the languages that have none."""

from __future__ import annotations

from collections.abc import Iterator

from ...files.outline.grammars import missing
from ...files.outline.languages import LANGUAGES
from ...runtime.worker.forking.outlining import ctags_program
from .finding import Finding


def outlines() -> Iterator[Finding]:
    unusable = missing()
    for reason in unusable:
        yield Finding("note", f"outlines of some files are from ctags or indentation; install it again: {reason}")
    if not unusable:
        yield Finding("ok", f"outlines of {len(LANGUAGES)} languages and formats")
    program = ctags_program()
    if program is None:
        yield Finding(
            "note", "outlines in other languages are from indentation; install Universal Ctags for better ones"
        )
    else:
        yield Finding("ok", f"outlines in other languages use {program}")
