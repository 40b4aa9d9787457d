"""The script that makes Markdown of a web page: `python -S -s -P page_child.py PREFIX EXEC_PREFIX PATH...`.

A process of its own, because a page may be made to take any time or memory. It has no keys and no environment, and its
limits are the kernel's. Takes a line of JSON (`url`, `charset`) and then the page on standard input, and answers with
JSON on standard output: `title` and `text`. Imports nothing of this program. Like the parent of workers, it is given
its import path, because statements may write where `.pth` files are found.

The main part of the page is kept, without navigation, scripts and forms. Links and images get whole addresses.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

CPU_SECONDS = 5
_MEMORY_BYTES = 1 << 30
_RECURSION = 5_000
"""Levels of elements. Deeper pages become plain text."""
_PR_SET_PDEATHSIG = 1
_NOT_CONTENT = (
    *("script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "head", "title"),
    *("nav", "header", "footer", "aside", "form", "button", "dialog", "input", "select", "textarea"),
)
_MAIN = ("main", '[role="main"]', "article")
_LEAST_CHARS = 200
"""A main part with less text is not believed to be one."""
_LONGEST_ADDRESS = 8_000
"""Characters of an address that others are relative to."""
TEXT_CHARS = 20 << 20
"""Characters of the Markdown, as many as the bytes that are read of a response."""
TITLE_CHARS = 10_000
_ADDRESSES = ("http", "https", "mailto", "")


def main() -> None:
    """Convert the page."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):  # which Linux alone has
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with suppress(ValueError):  # macOS cannot limit memory
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.prefix, sys.exec_prefix, *sys.path[:] = sys.argv[1:]
    request = json.loads(sys.stdin.buffer.readline())
    answer = converted(sys.stdin.buffer.read(), request["url"], request["charset"])
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as file:
        json.dump(answer, file)


def converted(data: bytes, url: str, charset: str = "") -> dict[str, str]:
    """Return the title and the Markdown of a page."""
    from bs4 import BeautifulSoup

    sys.setrecursionlimit(_RECURSION)
    page = BeautifulSoup(data, "html.parser", from_encoding=charset or None)
    title = page.title.get_text(" ", strip=True) if page.title else ""
    base = page.find("base", href=True)
    address = urljoin(url, str(base["href"])[:_LONGEST_ADDRESS]) if base else url
    for element in page.find_all(_NOT_CONTENT):
        element.decompose()
    part = _main(page)
    _complete(part, address)
    try:
        text = _converter().convert_soup(part)
    except RecursionError:
        text = part.get_text("\n", strip=True)
    lines = [line.rstrip() for line in text.splitlines()]
    text = "\n".join(_without_gaps(lines)).strip()
    # The parent cuts between words; one character too many tells it to.
    return {"title": " ".join(title.split())[: TITLE_CHARS + 1], "text": f"{text[:TEXT_CHARS]}\n"}


def _main(page: Any) -> Any:
    """The part with the content: the largest one that is marked as that, if it has some text."""
    for selector in _MAIN:
        found = page.select(selector)
        if len(found) == 1 and len(found[0].get_text(strip=True)) >= _LEAST_CHARS:
            return found[0]
    return page.body or page


def _complete(part: Any, address: str) -> None:
    """Make addresses absolute, and drop those that are data or code."""
    for element in part.find_all(("a", "img")):
        name = "href" if element.name == "a" else "src"
        given = element.get(name)
        if given is None:
            continue
        try:
            whole = urljoin(address, str(given).strip())
            is_kept = urlsplit(whole).scheme in _ADDRESSES
        except ValueError:
            is_kept, whole = False, ""
        if is_kept:
            element[name] = whole
        elif element.name == "a":
            element.unwrap()
        else:
            element.decompose()


def _converter() -> Any:
    from markdownify import MarkdownConverter

    return MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
        code_language_callback=_language,
    )


def _language(block: Any) -> str:
    """The language of a block of code, as its class names it."""
    inner = block.find("code")
    for element in (inner, block):
        for name in (element.get("class") or ()) if element is not None else ():
            for prefix in ("language-", "lang-", "highlight-source-"):
                if name.startswith(prefix):
                    return name.removeprefix(prefix)
    return ""


def _without_gaps(lines: list[str]) -> list[str]:
    """The lines with at most one blank line between two others."""
    return [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]


if __name__ == "__main__":
    main()
