"""A whole search in the working directory: walks, and prints what it finds. Called by `program`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Final

from .dialect import NotInDialectError, compiled
from .ignoring import Rules
from .lines import Searcher
from .tree import Tree, opened

FOUND: Final = 0
NOTHING: Final = 1
FAILED: Final = 2


def search(job: dict[str, Any], output: BinaryIO, say: Callable[[str], None]) -> int:
    """Does what the job of `files.search.commands` says; returns the exit code.

    Args:
        say: told what could not be read, and what is wrong with the expression.
    """
    tree = _tree(job, say)
    code = _list(tree, output) if job["pattern"] is None else _search(job, tree, output, say)
    if code == NOTHING and job["above"] and job["name"] is None and not tree.met_any:
        say(job["all_left_out"])
    return code


def _search(job: dict[str, Any], tree: Tree, output: BinaryIO, say: Callable[[str], None]) -> int:
    try:
        searcher = Searcher(*compiled(job["pattern"]), job["context"], job["longest_line"])
    except NotInDialectError as error:
        say(f"regex parse error:\n    {job['pattern']}\nerror: {error}")
        return FAILED
    paths = tree.files() if job["name"] is None else iter((job["name"],))
    found = False
    for path in paths:
        try:
            with opened(path) as file:
                printed = searcher.search(file)
        except OSError as error:
            tree.report(path, error)
            continue
        if printed:
            output.write((b"\n" if found else b"") + b"./" + os.fsencode(path) + b"\0" + printed)
            # What was found counts also where the time ends.
            output.flush()
            found = True
    return _code(tree, found)


def _list(tree: Tree, output: BinaryIO) -> int:
    found = False
    for path in tree.files():
        output.write(b"./" + os.fsencode(path) + b"\0")
        found = True
    return _code(tree, found)


def _code(tree: Tree, found: bool) -> int:
    if tree.failed:
        return FAILED
    return FOUND if found else NOTHING


def _tree(job: dict[str, Any], say: Callable[[str], None]) -> Tree:
    here = os.getcwd()
    rules = Rules(tuple(job["ignore_files"]), job["in_repository"])
    for each in job["above"]:
        rules = rules.within(each, below=os.path.relpath(here, each) + "/")
    wanted = None if job["expression"] is None else re.compile(job["expression"])
    return Tree(rules, wanted, frozenset(job["skipped"]), say)
