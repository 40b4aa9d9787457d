"""Skills and commands are found in every place, invalid ones are sentences, and nothing takes long or leads outside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.files.prompt_files import (
    DESCRIPTION_CHARS,
    FILE_BYTES,
    LONG_DESCRIPTION,
    MOST_FILES,
    MOST_PROBLEMS,
    NO_DESCRIPTION,
    NO_FRONT_MATTER,
    NOT_A_COMMAND,
    NOT_UTF_8,
    OTHER_NAME,
    OUTSIDE,
    TOO_LARGE,
    WRONG_NAME,
    PromptFiles,
    UnusableFileError,
    filled,
    prompt_files,
    skills_within,
    text_of,
)
from engine.files.safe_open import keep_out


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a directory in it."""
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/web").mkdir()
    return tmp_path / "project"


def found(directory: Path) -> PromptFiles:
    home = directory.parent if directory.name == "project" else directory.parent.parent
    return prompt_files(str(directory), str(home / "home"), str(home / "config"))


def skill(base: Path, name: str, description: str = "Does it.", text: str = "Do it.") -> Path:
    return write(base / f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: {description}\n---\n{text}\n")


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- places -----------------------------------------------------------------------------------------------------------


def test_skills_come_from_project_and_user_the_nearest_of_a_name_first(project: Path) -> None:
    home, config = project.parent / "home", project.parent / "config"
    for place, names in (
        (project / "web/.claude", "near"),
        (project / ".agents", "near root"),
        (config, "near of-config"),
        (home / ".agents", "root of-home"),
        (home / ".claude", "of-claude"),
    ):
        for name in names.split():
            skill(place, name, f"Of {place.relative_to(project.parent)}.")
    assert [(each.name, each.description, each.roots) for each in found(project / "web").skills] == [
        ("near", "Of project/web/.claude.", (str(project),)),
        ("root", "Of project/.agents.", (str(project),)),
        ("of-config", "Of config.", (str(config), "/")),
        ("of-home", "Of home/.agents.", ("/",)),
        ("of-claude", "Of home/.claude.", ("/",)),
    ]


def test_commands_are_named_by_their_files_in_any_folder(project: Path) -> None:
    write(project / ".claude/commands/git/commit.md", "---\ndescription: Commit.\nargument-hint: [message]\n---\nGo.")
    write(project / ".agents/commands/Fix.it.md", "\n# Fix it\n\nNow.")
    write(project / ".agents/commands/notes.txt", "no command")
    commands = found(project).commands
    assert [(each.name, each.description, each.hint) for each in commands] == [
        ("Fix.it", "Fix it", ""),
        ("commit", "Commit.", "[message]"),
    ]
    assert [text_of(each) for each in commands] == ["# Fix it\n\nNow.", "Go."]


def test_a_home_directory_that_is_a_project_has_its_files_once(tmp_path: Path) -> None:
    skill(tmp_path / ".agents", "one")
    result = prompt_files(str(tmp_path), str(tmp_path), str(tmp_path / "config"))
    assert [(each.name, each.roots) for each in result.skills] == [("one", ("/",))]


@pytest.mark.parametrize("base", ["config", ".agents"])
def test_a_users_file_may_be_a_link_except_to_what_is_kept_out(tmp_path: Path, base: str) -> None:
    folder, config = tmp_path / base / "commands", tmp_path / "config"
    state, keys = tmp_path / "state", config / "keys.json"
    for each in (folder, state, config):
        each.mkdir(parents=True, exist_ok=True)
    for path in (state / "token", keys, tmp_path / "mine.md"):
        path.write_text("secret")
    for place in (state, keys, config):
        keep_out(place)
    (folder / "own.md").write_text("My own.")
    targets = {"mine": tmp_path / "mine.md", "token": state / "token", "key": keys, "environ": "/proc/self/environ"}
    for name, target in targets.items():
        (folder / f"{name}.md").symlink_to(target)
    result = prompt_files(str(tmp_path), str(tmp_path), str(config))
    assert [each.name for each in result.commands] == ["mine", "own"]
    assert [OUTSIDE in each for each in result.problems] == [True] * 3


def test_a_folder_that_is_a_link_to_what_is_kept_out_has_no_files(tmp_path: Path) -> None:
    skill(tmp_path / "state", "one")
    write(tmp_path / "state/commands/two.md", "secret")
    keep_out(tmp_path / "state")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.agents").symlink_to(tmp_path / "state")
    result = prompt_files(str(tmp_path / "home"), str(tmp_path / "home"), str(tmp_path / "config"))
    assert (result.skills, result.commands) == ((), ())


@pytest.mark.parametrize(
    "value", ["0x" + "f" * 20_000, "9" * 20_000, ":".join("1" * 20_000), "[" * 9_000, "2026-99-99"]
)
def test_no_value_of_front_matter_is_more_than_text(project: Path, value: str) -> None:
    for field in ("name", "description", "argument-hint"):
        fields = {"name": "odd", "description": "Odd.", field: value}
        front = "\n".join(f"{each}: {text}" for each, text in fields.items())
        write(project / ".agents/skills/odd/SKILL.md", f"---\n{front}\n---\ntext")
        result = found(project)
        assert len(result.skills) + len(result.problems) == 1


# --- front matter -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("front", "description", "hint"),
    [
        ("description: >\n  Two\n  lines.", "Two lines.", ""),
        ("description: Use it when: always", "Use it when: always", ""),
        ("description: 'Quoted.'\nargument-hint: [a] [b]", "Quoted.", "[a] [b]"),
        ("description: x\nargument-hint: [a, b]", "x", "[a] [b]"),
        ("description: x\nallowed-tools: Bash(*)\nmetadata:\n  a: [1, {b: 2}]", "x", ""),
        ("description: 42", "42", ""),
    ],
)
def test_front_matter_is_read_as_other_programs_read_it(project: Path, front: str, description: str, hint: str) -> None:
    write(
        project / ".agents/skills/one/SKILL.md", f"---\r\nname: one\r\n{front}\r\n---\r\nDo it.".replace("\n", "\r\n")
    )
    (only,) = found(project).skills
    assert (only.description, only.hint, text_of(only)) == (description, hint, "Do it.")


def test_a_skill_says_whether_models_and_people_may_call_it(project: Path) -> None:
    skill(project / ".agents", "for-people", "x\ndisable-model-invocation: true")
    skill(project / ".agents", "for-models", "x\nuser-invocable: false")
    assert [(each.for_models, each.for_people) for each in found(project).skills] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no front matter", NO_FRONT_MATTER),
        ("---\nname: one\ndescription: x\n", NO_FRONT_MATTER),
        ("---\n- a\n---\n", WRONG_NAME),
        ("---\n&a [*a]\n---\n", WRONG_NAME),
        ("---\n" + "[" * 20_000 + "\n---\n", WRONG_NAME),
        ("---\nname: One\ndescription: x\n---\n", WRONG_NAME),
        (f"---\nname: {'a' * 65}\ndescription: x\n---\n", WRONG_NAME),
        ("---\nname: a--b\ndescription: x\n---\n", WRONG_NAME),
        ("---\nname: other\ndescription: x\n---\n", OTHER_NAME),
        ("---\nname: one\n---\n", NO_DESCRIPTION),
        ("---\nname: one\ndescription: [a]\n---\n", NO_DESCRIPTION),
        (f"---\nname: one\ndescription: {'a' * (DESCRIPTION_CHARS + 1)}\n---\n", LONG_DESCRIPTION),
        (b"---\nname: one\ndescription: \xff\n---\n", NOT_UTF_8),
        (b"\x00\xff" * 5_000_000, TOO_LARGE),
    ],
)
def test_an_invalid_skill_is_a_sentence(project: Path, text: str | bytes, reason: str) -> None:
    write(project / ".agents/skills/one/SKILL.md", text)
    skill(project / ".agents", "valid")
    result = found(project)
    assert [each.name for each in result.skills] == ["valid"]
    assert result.problems == (f".agents/skills/one/SKILL.md is not used as a skill, because {reason}.",)


def test_an_invalid_command_is_a_sentence(project: Path) -> None:
    write(project / ".agents/commands/two words.md", "x")
    write(project / ".agents/commands/large.md", "x" * (FILE_BYTES + 1))
    assert [each.rpartition("because ")[2] for each in found(project).problems] == [
        f"{TOO_LARGE}.",
        f"{NOT_A_COMMAND}.",
    ]


def test_aliases_in_front_matter_cannot_grow(project: Path) -> None:
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    front = "\n".join(["a0: &a0 x", *lines, "argument-hint: *a19"])
    write(project / ".agents/skills/one/SKILL.md", f"---\nname: one\ndescription: x\n{front}\n---\n")
    began = time.monotonic()
    (only,) = found(project).skills
    assert len(only.hint) < 300
    assert time.monotonic() - began < 2


# --- limits -----------------------------------------------------------------------------------------------------------


def test_ten_thousand_folders_are_counted(project: Path) -> None:
    for number in range(10_000):
        (project / f".agents/skills/s{number:05}").mkdir(parents=True)
    for number in range(MOST_FILES):
        skill(project / ".agents", f"s{number:05}")
    skill(project / ".claude", "too-late")
    began = time.monotonic()
    result = found(project)
    assert time.monotonic() - began < 5
    assert len(result.skills) == MOST_FILES
    assert [each.split(" in ")[0] for each in result.problems] == [
        "Rewindow reads at most 500 skills, so it skips 9,500 folders",
        "Rewindow reads at most 500 skills, so it skips 1 folder",
    ]


def test_many_problems_are_counted(project: Path) -> None:
    for number in range(MOST_PROBLEMS + 5):
        write(project / f".agents/skills/s{number}/SKILL.md", "")
    problems = found(project).problems
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1].startswith("5 more ")


def test_links_in_a_project_are_followed_only_inside(project: Path, tmp_path: Path) -> None:
    outside = skill(tmp_path / "outside", "secret")
    skill(project / ".agents", "inside")
    (project / ".claude").mkdir()
    (project / ".claude/skills").symlink_to(tmp_path / "outside/skills")
    (project / ".claude/commands").symlink_to(project / ".agents/skills")
    (project / ".agents/skills/linked").symlink_to(outside.parent)
    (project / ".agents/skills/pipe").mkdir()
    (project / ".agents/skills/pipe/SKILL.md").symlink_to("/dev/zero")
    result = found(project)
    assert [each.name for each in result.skills] == ["inside"]
    assert [each.name for each in result.commands] == ["SKILL"]
    assert [OUTSIDE in each for each in result.problems] == [True, True, True]


def test_links_of_a_user_are_followed(project: Path, tmp_path: Path) -> None:
    skill(tmp_path / "dotfiles", "mine")
    (project.parent / "home/.agents").mkdir(parents=True)
    (project.parent / "home/.agents/skills").symlink_to(tmp_path / "dotfiles/skills")
    assert [each.name for each in found(project).skills] == ["mine"]


def test_a_file_that_left_the_project_since_is_not_read(project: Path, tmp_path: Path) -> None:
    path = write(project / ".agents/commands/one.md", "Do it.")
    (only,) = found(project).commands
    path.unlink()
    path.symlink_to(write(tmp_path / "outside.md", "secret"))
    with pytest.raises(UnusableFileError, match=OUTSIDE):
        text_of(only)


def test_skills_stay_within_a_limit(project: Path) -> None:
    for name in ("a1", "a2", "a3"):
        skill(project / ".agents", name, "x" * 98)
    skills = found(project).skills
    assert [each.name for each in skills_within(skills, 250)] == ["a1", "a2"]


def test_folders_below_commands_are_bounded(project: Path) -> None:
    deep = project / ".agents/commands" / "/".join(["d"] * 40)
    write(deep / "deep.md", "x")
    (project / ".agents/commands/loop").symlink_to(project / ".agents/commands")
    assert [each.name for each in found(project).commands] == []


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "argument", "expected"),
    [
        ("Fix $ARGUMENTS now", "a  'b c'", "Fix a  'b c' now"),
        ("$2, $1, $3.", "a 'b c'", "b c, a, ."),
        ("$1", "it's", "it's"),
        ("$1 $2", "$2 x", "$2 x"),
        ("$10 $100 $0 $x $ARGUMENTSX", "a", " $100 $0 $x $ARGUMENTSX"),
        ("Review.", "a.py", "Review.\n\nARGUMENTS: a.py"),
        ("Review.", "", "Review."),
        ("!`rm -rf $1`", "x", "!`rm -rf x`"),
    ],
)
def test_arguments_are_filled_in(text: str, argument: str, expected: str) -> None:
    assert filled(text, argument) == expected
