"""`fetch(...)` over the real agent, from a server on this machine, which the documented setting allows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine.session.fetching import ADVICE
from tests.support.agents import SECONDS, Agent
from tests.support.scripts import load, scripted
from tests.support.transcripts import asks_permission

PAGE = b"<title>T</title><nav>Menu</nav><main><h1>Head</h1><p>" + b"Some text. " * 40 + b"<a href='/x'>x</a></p></main>"


class Site(ThreadingHTTPServer):
    """A page, a file, and redirects. `paths` are those that were requested."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: list[str] = []
        self.came, self.gone = threading.Event(), threading.Event()
        self.place = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.place}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Site)
        self.server.paths.append(self.path)
        if self.path == "/silent":
            self.server.came.set()
            self.server.gone.wait(SECONDS)
            return
        targets = {
            "/metadata": "http://169.254.169.254/latest/",
            "/localhost": "http://localhost:1/",
            "/moved": "/page",
        }
        if target := targets.get(self.path):
            self.send_response(302)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        is_page = self.path.startswith("/page")
        body = PAGE if is_page else b"%PDF\0"
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "application/pdf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.gone.set()
        server.shutdown()
        thread.join()


def test_model_fetches_what_the_user_allows_and_a_load_fetches_nothing(
    tmp_path: Path, project: Path, site: Site
) -> None:
    statements = [
        f"page = fetch('{site.url}/moved')\nother = fetch('{site.url}/page?2')\n"
        "print(page.url, page.title, page.text[:6])",
        f"file = fetch('{site.url}/doc.pdf')\nprint(open(file.path, 'rb').read())",
        f"fetch('{site.url}/metadata')",
        f"fetch('{site.url}/localhost')",
    ]
    model = scripted(tmp_path, *({"statement": source} for source in statements), {"text": "Done."})
    settings = {"REWINDOW_FETCH_PRIVATE": site.place}
    with Agent(tmp_path / "state", "--model", model, env=settings) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        text = str(agent.updates())
        assert f"{site.url}/page T # Head" in text
        assert r"%PDF\\x00" in text
        assert "169.254.169.254 has the address 169.254.169.254" in text
        assert f"it is private{ADVICE}" in text
        cards = [each for each in agent.updates("tool_call") if each["name"] == "fetch"]
        assert {card["kind"] for card in cards} == {"fetch"}
        questions = [each["params"]["toolCall"] for each in agent.received if asks_permission(each)]
        # With a sandbox each site is asked about, once in a statement; without one, each statement as a whole.
        fetches = [each["title"] for each in questions if each["kind"] == "fetch"]
        assert len(questions) in (4, 6)
        assert not fetches or fetches[0] == f"Fetch {site.url}/moved"
        assert site.paths == ["/moved", "/page", "/page?2", "/doc.pdf", "/metadata", "/localhost"]
    with Agent(tmp_path / "state", env=settings) as later:
        later.initialize()
        load(later, session, project)
        later.prompt(session, "print(page.text[:6], open(file.path, 'rb').read())")
        assert "# Head" in str(later.updates()[-5:])
        assert len(site.paths) == 6


def test_cancel_ends_a_fetch(tmp_path: Path, project: Path, site: Site) -> None:
    with Agent(tmp_path / "state", env={"REWINDOW_FETCH_PRIVATE": site.place}) as agent:
        session = agent.open(project)
        prompt = agent.begin_prompt(session, f"fetch('{site.url}/silent')")
        assert site.came.wait(SECONDS)
        agent.notify("session/cancel", {"sessionId": session})
        assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
        assert agent.prompt(session, f"print(fetch('{site.url}/page').status)") == "end_turn"
        assert "200" in str(agent.updates()[-4:])
