"""Fetches of statements: who is asked about which site, in which mode, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from engine import PermissionAnswer
from engine.core.domain import Domain
from engine.core.ids import ExecutionId, ToolCallId
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.session import ConfigChanged, Mode, ModeChanged
from engine.log.permissions import SiteSubject
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime import pages
from engine.runtime.results import value_of
from engine.session.directories import DOWNLOADS, Scratch
from engine.session.editor_files import EditorBuffers
from engine.session.fetching import CUT, Fetched, Permit
from engine.session.forms import FormQuestions
from engine.session.policy import Questions
from engine.session.tool_calls import NOT_FETCHED, SECRET_ADDRESS, ToolCalls, ToolContext
from engine.session.tool_records import RecordedAnswers
from engine.session.tools import SeenFiles, Workspace
from engine.session.tools.fetch import checked_url
from engine.session.working_tree.changes import TreeComparison
from tests.support.in_process import InProcessEnvironment
from tests.support.permissions import FixedPermissions
from tests.support.session_parts import session_parts

pytestmark = pytest.mark.anyio
SECONDS = 20.0
ALLOWED, REJECTED = PermissionAnswer(outcome="allowed"), PermissionAnswer(outcome="rejected")
ALWAYS = replace(ALLOWED, remember=True)
A, B = "https://a.example/x", "https://b.example/y"
HELD = Domain(scratch="/tmp/scratch")


class Web:
    """Answers each address with `answer`, after its redirects."""

    def __init__(self) -> None:
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        self.answer = Fetched(url=None, status=200, content_type="text/plain", data=b"hello", is_cut=False)

    async def fetch(self, url: Any, permit: Permit) -> Fetched:
        await permit(url)
        while (target := self.redirects.get(str(url))) is not None:
            url = checked_url(target)
            await permit(url)
        self.asked.append(str(url))
        return replace(self.answer, url=url)


class Office:
    """The tool calls of statements, over a web of the test's."""

    def __init__(self, root: Path, answers: Sequence[PermissionAnswer] = (), *, domain: Domain | None = HELD) -> None:
        parts, workspace = session_parts(root), Workspace(str(root))
        self.log, self.web = parts.log, Web()
        self.user = FixedPermissions(answers)
        questions = Questions(self.log, parts.policy, parts.redactor, workspace.roots)
        questions.permissions = self.user
        self.parts = parts
        self.scratch = Scratch(root / "state", parts.session_id)
        self._context = ToolContext(
            parts=parts,
            workspace=workspace,
            questions=questions,
            forms=FormQuestions(parts.redactor),
            fetcher=self.web,  # pyright: ignore[reportArgumentType]
            downloads=self.scratch.keep,
            seen=SeenFiles(),
            comparison=TreeComparison(parts, workspace),
            buffers=EditorBuffers(workspace, parts.clock),
            dismissed=lambda: None,
            domain=lambda: domain,
        )

    def set(self, mode: Mode, **options: str) -> None:
        self.log.append(ModeChanged(mode=mode))
        for name, value in options.items():
            self.log.append(ConfigChanged(option=name, value=value))

    def statement(self, *, approved: bool = False, recorded: RecordedAnswers | None = None) -> Callable[[str], Any]:
        calls = ToolCalls(self._context, ExecutionId("ex"), ToolCallId("p"), approved, recorded)

        async def fetch(url: str) -> EffectAnswer:
            request = EffectRequest(ordinal=len(self.log), operation="fetch", arguments={"url": url})
            with anyio.fail_after(SECONDS):
                return await calls.perform(request, InProcessEnvironment(len))

        return fetch

    @property
    def sites(self) -> list[str]:
        """The sites that the user was asked about."""
        subjects = [question.subject for question in self.user.questions]
        return [subject.site for subject in subjects if isinstance(subject, SiteSubject)]


async def test_statement_asks_once_for_each_site(tmp_path: Path) -> None:
    office = Office(tmp_path, [ALLOWED] * 3)
    fetch = office.statement()
    for url in (A, A + "?more", B, A):
        assert (await fetch(url)).error is None
    assert office.sites == ["https://a.example", "https://b.example"]
    assert (await office.statement()(A)).error is None
    assert office.sites[2:] == ["https://a.example"]
    (call, *_) = [event for event in office.log.events if isinstance(event, ToolCall)]
    assert (call.tool, call.arguments) == ("fetch", {"url": A})


async def test_always_covers_the_site_with_its_scheme_and_port(tmp_path: Path) -> None:
    office = Office(tmp_path, [ALWAYS, REJECTED, REJECTED, REJECTED])
    for _ in range(3):
        assert (await office.statement()(A)).error is None
    assert office.user.questions[0].always == "fetches from https://a.example"
    for url in ("http://a.example/x", "https://a.example:444/x", "https://a.example.b.example/x"):
        answer = await office.statement()(url)
        assert answer.error is not None
        assert answer.error.type == "PermissionError"
    assert len(office.sites) == 4


async def test_redirect_asks_about_its_own_site(tmp_path: Path) -> None:
    office = Office(tmp_path, [ALLOWED, REJECTED])
    office.web.redirects = {A: B}
    fetch = office.statement()
    answer = await fetch(A)
    assert answer.error is not None
    assert answer.error.type == "PermissionError"
    assert office.sites == ["https://a.example", "https://b.example"]
    assert office.web.asked == []
    assert [event.status for event in office.log.events if isinstance(event, ToolResult)] == ["rejected"]
    assert (await fetch(A)).error is not None
    assert len(office.sites) == 2


@pytest.mark.parametrize(
    ("mode", "domain", "approved", "is_asked"),
    [
        ("ask", HELD, False, True),
        ("ask", HELD, True, True),
        ("ask", None, True, False),
        ("plan", HELD, False, True),
        ("plan", None, False, True),
        ("plan", None, True, False),
        ("auto", HELD, False, True),
        ("auto", HELD, True, True),
        ("auto", Domain(scratch="/s", network=True), False, False),
        ("auto", None, False, False),
    ],
)
async def test_modes_ask_unless_the_statement_has_the_network(
    tmp_path: Path, mode: Mode, domain: Domain | None, approved: bool, is_asked: bool
) -> None:
    office = Office(tmp_path, [ALLOWED], domain=domain)
    office.set(mode)
    assert (await office.statement(approved=approved)(A)).error is None
    assert bool(office.sites) is is_asked


async def test_statement_that_was_allowed_as_a_whole_asks_nothing_more(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.set("ask", ask_about="statements")
    assert (await office.statement(approved=True)(A)).error is None
    assert office.sites == []


REFUSED = [
    "fetch(): the address does not begin with http:// or https://; open() reads files",
    "fetch(): the address does not begin with http:// or https://; open() reads files",
    "fetch(): the address is invalid",
    "fetch(): an address with a user name or password is not fetched",
]


async def test_address_with_a_secret_is_never_sent(tmp_path: Path) -> None:
    office = Office(tmp_path, [ALLOWED] * 5)
    secret = "sk-1234567890ABCDEF"
    object.__setattr__(office.parts, "redactor", office.parts.redactor.knowing([secret]))
    fetch = office.statement()
    spelled = "".join(f"%{ord(char):02x}" for char in secret)
    for url in (
        f"https://a.example/?key={secret}",
        f"https://a.example/{spelled}",
        f"https://{secret}.example/",
    ):
        answer = await fetch(url)
        assert answer.error is not None
        assert answer.error.message == SECRET_ADDRESS, url
    for part in (secret, "sk-1234567890ABCDEG"):
        refused = [await fetch(url.format(part)) for url in ("x {}", "ftp://a/{}", "https://{}:x/", "https://{}@a/")]
        assert [str(each.error and each.error.message) for each in refused] == REFUSED
    office.web.redirects = {A: f"https://a.example/?key={secret}"}
    assert (await fetch(A)).error is not None
    assert office.web.asked == []


async def test_edit_without_a_recorded_answer_fetches_nothing(tmp_path: Path) -> None:
    office = Office(tmp_path, [ALLOWED])
    answer = await office.statement(recorded=RecordedAnswers((), office.parts.store))(A)
    assert answer.error is not None
    assert (answer.error.type, answer.error.message) == ("PermissionError", NOT_FETCHED)
    assert office.web.asked == []


# --- what a statement gets --------------------------------------------------------------------------------------------


def content(path: str) -> bytes:
    return Path(path).read_bytes()


async def got(office: Office, content_type: str, data: bytes, *, is_cut: bool = False, status: int = 200) -> Any:
    office.web.answer = Fetched(url=None, status=status, content_type=content_type, data=data, is_cut=is_cut)
    answer = await office.statement(approved=True)(A)
    assert answer.error is None, answer.error
    return value_of("fetch", answer.value)


async def test_texts_pages_and_files(tmp_path: Path) -> None:
    office = Office(tmp_path, domain=None)
    text = await got(office, "text/plain; charset=latin-1", "é".encode("latin-1"))
    assert (text.url, text.status, text.type, text.text, text.path, text.note) == (A, 200, "text/plain", "é", "", "")
    page = await got(office, "text/html", b"<title>T</title><h1>H</h1>")
    assert (page.title, page.text, page.path) == ("T", "# H\n", "")
    file = await got(office, "application/pdf", b"%PDF\0")
    assert (file.text, file.path) == ("", str(Path(office.scratch.path, DOWNLOADS, "x.pdf")))
    assert content(file.path) == b"%PDF\0"
    other = await got(office, "image/png", b"\0")
    assert Path(other.path).name == "x.png"
    assert Path((await got(office, "application/pdf", b"2")).path).name == "x-2.pdf"
    assert (await got(office, "image/png", b"")).path == ""


async def test_repr_is_short_and_says_what_is_missing(tmp_path: Path) -> None:
    office = Office(tmp_path, domain=None)
    long = await got(office, "text/plain", b"x" * 100_000, is_cut=True, status=404)
    assert len(repr(long)) < 5_000
    first = repr(long).split("\n")[0]
    assert first == f"{A} (status 404, text/plain, 100,000 characters, {CUT})"
    hostile = await got(office, "text/\x1b[2K", b"")
    assert "\x1b" not in repr(hostile)


async def test_page_that_is_not_converted_is_a_file_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SECONDS", 0.01)
    page = await got(Office(tmp_path, domain=None), "text/html", b"<p>x")
    assert (page.text, page.note) == ("", pages.UNCONVERTED)
    assert content(page.path) == b"<p>x"
