"""The setting `workspaces`: which directories have clones, of which repositories."""

from __future__ import annotations

import os

import pytest

from engine.core.errors import InvalidRequestError
from engine.core.repositories import (
    NAMED_USER,
    NO_ADDRESS,
    NO_BRANCH,
    NO_PAIR,
    TWICE,
    Repository,
    is_branch,
    parse_repositories,
    repository_of,
)
from engine.core.settings import load_settings

APP = Repository("/work/app", "https://git.example/app.git", "main")
SITE = Repository("/work/site", "git@git.example:team/site.git")


def test_repositories_of_a_value() -> None:
    text = "/work/app/=https://git.example/app.git#main, /work/site = git@git.example:team/site.git"
    assert parse_repositories(text) == (APP, SITE)
    home = os.path.expanduser("~/x")
    assert parse_repositories("~/x=/srv/x.git") == (Repository(home, "/srv/x.git"),)
    assert parse_repositories("/x=ssh://git@host:22/a b".replace(" ", "")) == (
        Repository("/x", "ssh://git@host:22/ab"),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("git", NO_PAIR),
        ("work=https://git.example/app.git", NO_PAIR),
        ("/work=", NO_PAIR),
        ("/work=ext::sh -c x", NO_ADDRESS),
        ("/work=--upload-pack=x", NO_ADDRESS),
        ("/work=relative/path", NO_ADDRESS),
        ("/work=ann@host:-x", NO_ADDRESS),
        ("/work=https://ann:secret@git.example/app.git", NAMED_USER),
        ("/work=https://secret@git.example/app.git", NAMED_USER),
        ("/work=https://git.example/app.git?token=secret", NAMED_USER),
        ("/work=/srv/x.git#", NO_BRANCH),
        ("/work=/srv/x.git#--force", NO_BRANCH),
        ("/work=/srv/x.git#a..b", NO_BRANCH),
        ("/work=/srv/x.git,/work/=/srv/y.git", TWICE),
    ],
)
def test_wrong_values_are_refused_and_not_quoted(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        load_settings({"HOME": "/nowhere", "REWINDOW_WORKSPACES": text})
    assert str(refused.value) == f"REWINDOW_WORKSPACES has an invalid value: {reason}"


def test_directories_and_their_clones_have_a_repository() -> None:
    found = [repository_of((APP, SITE), path) for path in ("/work/app", "/work/site/ses_1", "/work", "/work/app/a/b")]
    assert found == [APP, SITE, None, None]


def test_branches_are_nothing_else_for_git() -> None:
    assert [is_branch(text) for text in ("main", "a/b-c.1", "-x", "", "a..b", "a b", "HEAD~1", "@")] == [
        *(True, True),
        *[False] * 6,
    ]
