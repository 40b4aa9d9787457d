"""Prompts, and the completion of arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from mcp_tools.prompts import NO_CHANGES
from tests.support.mcp_clients import ERAS, Caller, Era, served

pytestmark = pytest.mark.anyio


async def read(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.uri == uri
    return contents.text


async def completed(caller: Caller, of: str, argument: str, start: str = "") -> list[str]:
    """The completions of an argument of a template or prompt."""
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


async def test_completion_ignores_punctuation(project: Path) -> None:
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
async def test_directories_are_completed_within_roots(project: Path, tmp_path: Path, era: Era) -> None:
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


async def test_unknown_arguments_have_no_completions(project: Path) -> None:
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


async def test_prompts(project: Path) -> None:
    async with served(project) as caller:
        assert [each.name for each in (await caller.client.list_prompts()).prompts] == ["orient", "review-changes"]
        assert 'add ["src/**/*"]' in await prompt(caller, "orient", path="src/")
        assert 'add ["**/*"]' in await prompt(caller, "orient")
        assert NO_CHANGES in await prompt(caller, "review-changes")
        await caller.text("view", path="a.txt", follow=True)
        (project / "a.txt").write_text("three\n")
        await caller.text("tick")
        assert "+three" in await prompt(caller, "review-changes")
        with pytest.raises(MCPError, match="`since` must be a cursor that `tick` returned, at most"):
            await prompt(caller, "review-changes", since="999999")
        with pytest.raises(MCPError, match="Unknown prompt: other; the prompts are orient, review-changes"):
            await prompt(caller, "other")
