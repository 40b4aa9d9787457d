"""`rewindow show SESSION --html FILE`: one file with the whole session, whatever its texts are."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.core.errors import InvalidRequestError
from engine.core.ids import BlobDigest
from engine.log.events import Event
from engine.log.events.execution import FileWritten
from engine.log.redaction import NO_SECRETS, Redactor, redact_event
from engine.session.session_json import session_json
from session_page import assembly, file
from session_page.assembly import BAD_BUNDLE, DATA_ID, NO_BUNDLE, SCRIPT, SERVED_POLICY, STYLE, bundle
from session_page.file import MAY_HOLD_SECRETS, SCHEMA, TOO_LARGE, session_file, write_file
from tests.support import page_server
from tests.support.page_sessions import HOSTILE, hostile_events
from tests.support.rich_log import events_of, rich_items

RICH = events_of(rich_items())
NOW = 1_800_000_000.0


def blob(digest: BlobDigest) -> bytes:
    raise KeyError(digest)


def made(events: list[Event], hidden: Redactor = NO_SECRETS) -> str:
    return session_file(bundle(), "ses_a", events, blob, hidden, NOW)[0].decode()


class Elements(HTMLParser):
    """The elements of a page, with attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        tag, attributes, text = self.found[-1] if self.found else ("", {}, "")
        self.found[-1:] = [(tag, attributes, text + data)]


def data_in(page: str) -> Any:
    (text,) = [text for tag, attributes, text in Elements(page).found if attributes.get("id") == DATA_ID]
    return json.loads(gzip.decompress(base64.b64decode(text)))


def test_file_has_the_document_of_the_command() -> None:
    data = data_in(made(RICH))
    assert data["schema"] == SCHEMA
    assert data["document"] == json.loads(session_json("ses_a", RICH, blob, NO_SECRETS))
    assert data["file"]["made_at"] == NOW


def test_hostile_texts_make_no_element() -> None:
    page, ordinary = made(hostile_events()), made(RICH)
    assert [(tag, attributes.keys()) for tag, attributes, _ in Elements(page).found] == [
        (tag, attributes.keys()) for tag, attributes, _ in Elements(ordinary).found
    ]
    around = [re.sub(r'(id="session-data">)[A-Za-z0-9+/=]*', r"\1", each) for each in (page, ordinary)]
    assert around[0] == around[1]
    assert not any(text in page for text in HOSTILE)
    assert HOSTILE[0] in json.dumps(data_in(page))


def test_policy_admits_the_bundle_alone() -> None:
    page = made(RICH)
    (policy,) = [
        attributes["content"]
        for tag, attributes, _ in Elements(page).found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    for name, text in (("script-src", page_server.SCRIPT), ("style-src", page_server.STYLE)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy + SERVED_POLICY
    assert "connect-src" not in policy


def test_nothing_is_fetched() -> None:
    linked = [
        attributes
        for tag, attributes, _ in Elements(made(RICH)).found
        if attributes.keys() & {"src", "href", "action", "data", "srcset"}
    ]
    assert linked == []


@pytest.mark.parametrize(
    ("name", "text"), [(SCRIPT, "'</SCRIPT>'"), (SCRIPT, "'<!--'"), (STYLE, "a::before { content: '</style>' }")]
)
def test_bundle_that_would_end_its_element_is_refused(tiny_bundle: Path, name: str, text: str) -> None:
    (tiny_bundle / name).write_text(text)
    with pytest.raises(InvalidRequestError) as refused:
        made(RICH)
    assert str(refused.value).startswith(BAD_BUNDLE.split("{text")[0].format(name=name))


def test_missing_bundle_is_named(tiny_bundle: Path, tmp_path: Path) -> None:
    (tiny_bundle / STYLE).unlink()
    with pytest.raises(InvalidRequestError, match=re.escape(NO_BUNDLE.format(name=STYLE))):
        write_file(str(tmp_path / "page.html"), "ses_a", RICH, blob, NO_SECRETS, NOW)
    assert not (tmp_path / "page.html").exists()


def test_no_secret_is_in_the_file() -> None:
    hidden = Redactor(["geheimes-passwort"])
    events = [redact_event(hidden, event) for event in hostile_events()]
    data = json.dumps(data_in(made(events, hidden)))
    assert "geheimes-passwort" not in data


def test_largest_contents_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LARGEST", 40_000)
    noise = {f"blake2b-{number}": os.urandom(6_000 * number).hex() for number in range(1, 5)}
    written = next(event for event in RICH if isinstance(event, FileWritten))
    extra = [replace(written, seq=len(RICH) + place, after=digest) for place, digest in enumerate(noise)]
    page, notes = session_file(
        bundle(), "ses_a", [*RICH, *extra], lambda digest: noise[digest].encode(), NO_SECRETS, NOW
    )
    assert len(page) <= 40_000
    left = [each.digest for each in notes.left_out]
    assert left[0] == "blake2b-4"
    assert "blake2b-1" not in left
    data = data_in(page.decode())
    assert data["document"]["contents"]["blake2b-4"] == {"left_out": TOO_LARGE}
    assert data["document"]["contents"]["blake2b-1"] == {"text": noise["blake2b-1"]}
    assert {each["digest"] for each in data["file"]["left_out"]} == set(left)


def test_file_is_written_at_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("an earlier one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(str(path), "ses_a", RICH, blob, NO_SECRETS, NOW)
    assert (path.read_text(), os.listdir(tmp_path)) == ("an earlier one", ["page.html"])


def test_written_file_is_for_its_owner_and_says_what_it_contains(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    written = write_file(str(path), "ses_a", RICH, blob, NO_SECRETS, NOW)
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (written.size, 0o600)
    assert written.notes.contains[-1] == MAY_HOLD_SECRETS
    assert written.notes.contains[0].startswith("5 statements")


def test_same_session_gives_the_same_file() -> None:
    assert made(RICH) == made(RICH)
    assert assembly.packed(b"data") == assembly.packed(b"data")
