"""Web pages as Markdown: their main part, whole addresses, every encoding, and pages made to break it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from engine.runtime import pages
from engine.runtime.page_child import CPU_SECONDS, converted
from engine.runtime.pages import SECONDS, UNCONVERTED, markdown_of

PAGE = """<!doctype html><html><head><title>A
 title</title><style>p{}</style><script>bad()</script></head><body>
<nav><a href="/menu">Menu</a></nav>
<main><h1>Head</h1><p>Some <b>bold</b> text, my_name and 2*3*4 with <a href="../x?y=1#z">a link</a>.</p>
<p><a href="javascript:alert(1)">no</a> <img src="data:image/png;base64,AAAA" alt="no"> <img src="p.png" alt="yes"></p>
<pre><code class="language-python">def f():
    return a_b * 2
</code></pre>
<ul><li>one</li><li>two</li></ul>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<form><input value="secret"><button>Send</button></form><script>bad()</script>
<p>PADDING</p></main><footer>Imprint</footer></body></html>""".replace("PADDING", "More text. " * 30)


def test_page_is_the_markdown_of_its_main_part() -> None:
    title, text = markdown_of(PAGE.encode(), "https://example.org/a/b/c.html")
    assert title == "A title"
    assert text.startswith(
        "# Head\n\nSome **bold** text, my_name and 2*3*4 with [a link](https://example.org/a/x?y=1#z).\n"
    )
    assert "![yes](https://example.org/a/b/p.png)\n" in text
    assert "```python\ndef f():\n    return a_b * 2\n```" in text
    assert "- one\n- two\n" in text
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    for left_out in ("Menu", "Imprint", "Send", "secret", "bad()", "p{}", "data:", "javascript:", "A title"):
        assert left_out not in text


def test_page_without_a_main_part_is_its_body() -> None:
    assert converted(b"<p>x</p><main>short</main>", "https://a/")["text"] == "x\n\nshort\n"
    base = b'<base href="https://b/c/"><a href="d">e</a>'
    assert converted(base, "https://a/")["text"] == "[e](https://b/c/d)\n"
    far = converted(b'<base href="https://b/%s/"><a href="d">e</a>' % (b"c" * 100_000), "https://a/")["text"]
    assert len(far) < 10_000
    for empty in (b"", b"<html>", b"\0", b"<!--"):
        assert converted(empty, "https://a/") == {"title": "", "text": converted(empty, "https://a/")["text"]}


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("<p>é</p>".encode("latin-1"), "latin-1"),
        ("<p>é</p>".encode("shift_jis", "xmlcharrefreplace"), "shift_jis"),
        ('<meta charset="windows-1251"><p>ж</p>'.encode("cp1251"), ""),
        ("<p>é</p>".encode("utf-16"), ""),
        ("<p>é</p>".encode(), "no-such"),
        ("<p>é</p>".encode(), ""),
    ],
)
def test_page_has_the_encoding_that_it_or_its_header_names(data: bytes, charset: str) -> None:
    assert markdown_of(data, "https://a/", charset).text.strip() in ("é", "ж")


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 200_000 + b"x",
        b"<table><tr><td>" * 20_000,
        b"<p>" + b"<b>" * 50_000 + b"x",
        b"<a href='" + b"/x" * 500_000,
        b"&" * 1_000_000,
        bytes(range(256)) * 4_000,
        b"<![CDATA[" * 10_000,
    ],
    ids=["deep", "tables", "bold", "long", "references", "bytes", "marks"],
)
def test_broken_page_ends_within_its_limits(page: bytes) -> None:
    began = time.monotonic()
    with suppress(ValueError):
        markdown_of(page, "https://a/")
    assert time.monotonic() - began < SECONDS + 5


def test_page_that_is_not_converted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SECONDS", 0.01)
    with pytest.raises(ValueError, match=UNCONVERTED):
        markdown_of(b"<p>x", "https://a/")


def test_a_long_title_is_cut_between_words() -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"
    found = markdown_of(f"<title>{'ab ' * 3_325}{key} end</title><p>x</p>".encode(), "https://a/")
    assert found.title == f"{'ab ' * 3_325}\u2026"


LIMITED = """
import resource, sys
from engine.runtime.page_child import main
sys.argv[1:] = [sys.prefix, sys.exec_prefix, *sys.path]
main()
print()
print(*(resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)))
"""


def test_time_memory_and_files_of_the_child_are_limited() -> None:
    page = b'{"url": "https://a/", "charset": ""}\n<p>x</p>'
    done = subprocess.run([sys.executable, "-c", LIMITED], input=page, capture_output=True, timeout=60, check=True)
    answer, limits = done.stdout.splitlines()
    assert json.loads(answer)["text"] == "x\n"
    seconds, memory, file = map(int, limits.split())
    assert seconds == CPU_SECONDS
    assert 0 < memory <= 1 << 30
    assert file == 0
