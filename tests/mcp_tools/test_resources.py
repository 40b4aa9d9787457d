"""Resources in both eras: reading, listing, and unknown URIs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    TextResourceContents,
)

from mcp_tools.tools.history import NO_STATEMENT, NOTHING_CHANGED
from tests.support.mcp_clients import ERAS, Era, served

pytestmark = pytest.mark.anyio


async def read(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.uri == uri
    return contents.text


@pytest.mark.parametrize("era", ERAS)
async def test_reading_resources_has_no_side_effects(project: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        client = caller.client
        assert [each.uri for each in (await client.list_resources()).resources] == ["timeline://session"]
        assert await read(client, "timeline://session") == NO_STATEMENT
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
        assert await read(client, f"changes://{cursor}") == f"{NOTHING_CHANGED}\ncursor {cursor}"
        assert "three" in await read(client, "view://a")


@pytest.mark.parametrize(
    "uri",
    ["view://b", "group://a", "view://", "view://a/b", "changes://99999", "changes://x", "file:///etc/passwd", "x"],
)
async def test_unknown_resource_lists_existing_ones(project: Path, uri: str) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name="a")
        with pytest.raises(MCPError) as refused:
            await caller.client.read_resource(uri)
        assert refused.value.error.code == -32602
        assert "the known resources are view://a, timeline://session" in refused.value.error.message
        assert refused.value.error.data == {"uri": uri}


NAMED = (("src/a b.txt", "src_a_b_txt"), ("my-view", "my_view"), ("list", "list_"), ("x" * 300, ""))


@pytest.mark.parametrize(("name", "handle"), NAMED)
async def test_resource_is_readable_by_the_client_name(project: Path, name: str, handle: str) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", name=name)
        (uri, _) = [each.uri for each in (await caller.client.list_resources()).resources]
        assert handle in uri
        for written in (name, quote(name, safe=""), quote(name)):
            assert "1\tone\n" in await read(caller.client, f"view://{written}")
        with pytest.raises(MCPError):
            await read(caller.client, f"group://{quote(name)}")
