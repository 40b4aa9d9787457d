"""Resources, prompts and completions, and who is told when a resource has changed; in both eras."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from tests.support.mcp_clients import ERAS, Caller, Era, served, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


async def read(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.uri == uri
    return contents.text


@pytest.mark.parametrize("era", ERAS)
async def test_each_handle_is_a_resource_that_reading_leaves_as_it_is(project: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        client = caller.client
        assert [each.uri for each in (await client.list_resources()).resources] == ["timeline://session"]
        assert await read(client, "timeline://session") == "No statement has run yet."
        shown = await caller.text("view", path="a.txt", name="a", follow=True)
        await caller.text("group", name="g", add=["*.txt"])
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert listed == ["view://a", "group://g", "timeline://session"]
        assert await read(client, "view://a") == shown.replace("  statement 1", "")
        (project / "a.txt").write_text("three\n")
        assert await read(client, "view://a") == shown.replace("  statement 1", "")
        assert "# a.txt" in await read(client, "group://g")
        assert len((await read(client, "timeline://session")).split("\n")) == 2
        cursor = (await caller.text("tick")).rsplit(" ", 1)[1]
        assert (await read(client, "changes://0")).startswith("a: ")
        assert await read(client, f"changes://{cursor}") == f"Nothing changed.\ncursor {cursor}"
        assert "three" in await read(client, "view://a")


@pytest.mark.parametrize(
    "uri",
    ["view://b", "group://a", "view://", "view://a/b", "changes://99999", "changes://x", "file:///etc/passwd", "x"],
)
async def test_what_is_no_resource_is_an_error_that_says_what_is(project: Path, uri: str) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="a")
        with pytest.raises(MCPError) as refused:
            await caller.client.read_resource(uri)
        assert refused.value.error.code == -32602
        assert "there are view://a, timeline://session" in refused.value.error.message
        assert refused.value.error.data == {"uri": uri}


NAMED = (("src/a b.txt", "src_a_b_txt"), ("my-view", "my_view"), ("list", "list_"), ("x" * 300, ""))


@pytest.mark.parametrize(("name", "handle"), NAMED)
async def test_a_resource_is_read_by_the_name_that_a_client_gave(project: Path, name: str, handle: str) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name=name)
        (uri, _) = [each.uri for each in (await caller.client.list_resources()).resources]
        assert handle in uri
        for written in (name, quote(name, safe=""), quote(name)):
            assert "1\tone\n" in await read(caller.client, f"view://{written}")
        with pytest.raises(MCPError):
            await read(caller.client, f"group://{quote(name)}")


async def completed(caller: Caller, of: str, argument: str, start: str = "") -> list[str]:
    """What is offered for an argument of a template, or of a prompt."""
    template = ResourceTemplateReference(type="ref/resource", uri=of)
    reference = template if ":" in of else PromptReference(type="ref/prompt", name=of)
    found = (await caller.client.complete(reference, {"name": argument, "value": start})).completion
    assert (found.total or 0) >= len(found.values)
    assert found.has_more == ((found.total or 0) > len(found.values))
    return found.values


@pytest.mark.parametrize("era", ERAS)
async def test_names_and_cursors_are_completed(project: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        assert await completed(caller, "view://{name}", "name") == []
        for name in ("one", "other", "two"):
            await caller.text("view", path="a.txt", name=name, follow=name == "one")
        await caller.text("group", name="on")
        assert await completed(caller, "view://{name}", "name", "o") == ["one", "other"]
        assert await completed(caller, "group://{name}", "name", "o") == ["on"]
        assert await completed(caller, "changes://{cursor}", "cursor") == []
        since = (await caller.text("tick")).rsplit(" ", 1)[1]
        (project / "a.txt").write_text("three\n")
        await caller.text("tick")
        (cursor,) = await completed(caller, "changes://{cursor}", "cursor")
        assert int(since) <= int(cursor)
        assert "+three" in await read(caller.client, f"changes://{cursor}")
        assert await completed(caller, "review-changes", "since", cursor[:1]) == [cursor]
        assert await completed(caller, "review-changes", "since", "x") == []


async def test_names_are_completed_as_clients_write_them(project: Path) -> None:
    async with served(project) as caller:
        for name in ("my-view", "src/a.txt", "mine"):
            await caller.text("view", path="a.txt", name=name)
        for start, found in (
            ("my-", ["my_view"]),
            ("my v", ["my_view"]),
            ("src/a", ["src_a_txt"]),
            ("./src/", ["src_a_txt"]),
            ("/", []),
            ("-", []),
        ):
            assert await completed(caller, "view://{name}", "name", start) == found, start


@pytest.mark.parametrize("era", ERAS)
async def test_directories_of_the_roots_are_completed_before_there_is_a_session_and_then(
    project: Path, tmp_path: Path, era: Era
) -> None:
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    for name in ("src/deep", "docs", "build", ".git"):
        (project / name).mkdir(parents=True)
    (project / ".gitignore").write_text("build\n")
    (project / "evil").symlink_to(tmp_path / "outside")
    (project / "many").mkdir()
    for number in range(150):
        (project / "many" / f"{number:03}").mkdir()
    async with served(project, era=era) as caller:
        for _ in range(2):
            assert await completed(caller, "orient", "path") == ["docs/", "many/", "src/"]
            assert await completed(caller, "orient", "path", "src/d") == ["src/deep/"]
            many = await completed(caller, "orient", "path", "many/")
            assert (len(many), many[-1]) == (100, "many/099/")
            for start in ("evil/", "../", "/", "/etc/", f"{tmp_path}/outside/", "a\0", "x" * 5000):
                assert await completed(caller, "orient", "path", start) == ([f"{project}/"] if start == "/" else [])
            await caller.text("view", path="a.txt")


async def test_what_is_no_argument_of_ours_has_no_completions(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt")
        for of, argument in (
            ("orient", "name"),
            ("nobody", "path"),
            ("view://{name}", "path"),
            ("file://{path}", "path"),
        ):
            assert await completed(caller, of, argument) == []


async def prompt(caller: Caller, name: str, **arguments: str) -> str:
    (message,) = (await caller.client.get_prompt(name, arguments)).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


async def test_prompts_say_what_to_do_with_the_tools(project: Path) -> None:
    async with served(project) as caller:
        assert [each.name for each in (await caller.client.list_prompts()).prompts] == ["orient", "review-changes"]
        assert 'add ["src/**/*"]' in await prompt(caller, "orient", path="src/")
        assert 'add ["**/*"]' in await prompt(caller, "orient")
        assert "Nothing changed yet" in await prompt(caller, "review-changes")
        await caller.text("view", path="a.txt", follow=True)
        (project / "a.txt").write_text("three\n")
        await caller.text("tick")
        assert "+three" in await prompt(caller, "review-changes")
        with pytest.raises(MCPError, match="`since` is a cursor of `tick`, at most"):
            await prompt(caller, "review-changes", since="999999")
        with pytest.raises(MCPError, match="Unknown prompt: other; there are orient, review-changes"):
            await prompt(caller, "other")


async def test_a_subscriber_hears_by_the_uri_that_it_wrote(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="my-view", follow=True)
        wanted = ["view://my-view", "view://my_view", "view://other"]
        async with caller.client.listen(resource_subscriptions=wanted) as events:
            (project / "a.txt").write_text("three\n")
            heard = aiter(events)
            told = {str(getattr(await anext(heard), "uri", "")) for _ in range(2)}
            assert told == {"view://my-view", "view://my_view"}


async def test_a_subscriber_of_the_newer_era_hears_of_a_change_and_nothing_is_ticked(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        async with caller.client.listen(resource_subscriptions=["view://a"]) as events:
            (project / "a.txt").write_text("three\n")
            event = await anext(aiter(events))
            assert event == ResourceUpdated(uri="view://a")
            assert "one" in await read(caller.client, "view://a")
            assert "+three" in await caller.text("tick")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_subscriber_of_the_handshake_era_hears_of_it_too_until_it_leaves(project: Path) -> None:
    heard: list[str] = []
    changed = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            changed.set()

    async with served(project, era="legacy", hear=hear) as caller:
        await caller.text("view", path="a.txt", name="a", follow=True)
        await caller.client.subscribe_resource("view://a")
        (project / "a.txt").write_text("three\n")
        await changed.wait()
        assert heard == ["view://a"]
        await caller.client.unsubscribe_resource("view://a")
        assert text_of(await caller.result("tick")).startswith("a: ")
        await anyio.sleep(1.2)
        assert heard == ["view://a"]
