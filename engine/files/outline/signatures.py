"""Signatures without what stands ahead of a declaration and is no part of it: annotations, attributes, decorators.

Pure. Must not know a language: they look alike in all that have them. Called by `grammars`.
"""

from __future__ import annotations


def without_attributes(text: str) -> str:
    """The signature without annotations ahead of it, each on a line of its own or with its arguments."""
    text = text.lstrip()
    while text.startswith(("@", "#[", "[")):
        end = _end_of_attribute(text)
        if end is None:
            return text
        text = text[end:].lstrip()
    return text


def _end_of_attribute(text: str) -> int | None:
    """Where an attribute ends that begins the text; None where it does not, or is all of it."""
    depth = 0
    for index, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth < 0:
                return None
        if depth == 0 and index and (letter.isspace() or letter in ")]") and text[:10] not in {"@interface"}:
            rest = text[index + 1 :].lstrip()
            if not rest:
                return None
            if letter.isspace() and rest[0] == "(":
                continue
            return index + 1
    return None
