"""Find the files that a git repository's configuration names as programs, or includes as more configuration.

Any key may name a program (`pager.log`, `interactive.diffFilter`), so all values are considered except those of keys
that name data. A value is read both as one path and as the words of a command, whatever its quotes. A word counts as a
path if such a file exists or if it looks like a path. Of other words, which name no file yet, two kinds count: those
with the suffix of a script (`mon.py`), and arguments of an interpreter (`sh mon`). The rest names too much that is no
file: `!cat NOTES` does not run NOTES, and `main` is a branch. A command may pass more configuration to git (`-c
core.hooksPath=hooks`, `GIT_CONFIG_GLOBAL=file`), or directories with programs (`--exec-path=dir`, `PATH=dir`). A URL
contains a command if it names a transport (`ext::sh a.sh`), possibly only after `insteadOf` has replaced its beginning.
Included files, the user's own configuration, and the user's variables are read, too. The syntax is that of
git-config(1), and of a shell for commands (`shell_words`). Must not know what the results are used for. Called by
`protected`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final, NamedTuple

from ..core.domain import is_inside
from .safe_open import links_to, opened_file, real_path
from .shell_words import assignments_in, is_script, paths_given_in, run_if_created, words_in

CONFIGURATIONS: Final = ("config", "config.worktree")
COMMON_DIR: Final = "commondir"
WORK_TREES: Final = "worktrees"
_BYTES: Final = 1 << 20
_MOST_FILES: Final = 200
"""Number of included configuration files that are read for one repository."""
_MOST_PLACES: Final = 30
"""Number of directories in which a directory of hooks with a relative path may be."""
_MOST_WORK_TREES: Final = 1_000
"""Number of linked work trees of one repository whose configuration is read."""
_MOST_WORDS: Final = 500
"""Number of words of one value that are considered."""
_MOST_VALUES: Final = 1_000
"""Number of different values of one repository that are considered."""
_SECTION: Final = re.compile(r'[ \t]*\[[ \t]*([\w.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*\]')
_ENTRY: Final = re.compile(r"[ \t]*([\w-]+)[ \t]*=[ \t]*(.*)")
_VALUE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"?|\\(.)|([#;].*)|([^"\\#;]+)')
_ESCAPED: Final = re.compile(r"\\(.)")
_UNESCAPED_QUOTE: Final = re.compile(r'\\.|(")')
_BLANKS: Final = {"n": "\n", "t": "\t", "b": ""}
"""Escaped characters with a meaning in a value; any other stands for itself."""
_BETWEEN_WORDS: Final = re.compile(r"[\s\"'`;|&()<>{}=,!]+")
_QUOTED: Final = re.compile(r"""["'`]([^"'`]+)["'`]""")
_HERE: Final = re.compile(r"""\$(?:PWD|\{PWD\}|\(pwd\)|\(git rev-parse --show-toplevel\))["']?/""")
_QUOTES: Final = re.compile(r"""["'\\]""")
_OPTION: Final = re.compile(r"-[A-Za-z](?=[\w./~])")
_MOST_FOLDERS: Final = 200
"""Number of directories in which a command is assumed to look for programs."""
_TRANSPORT: Final = "::"
_ENVIRONMENT: Final = ""
"""Stands for the configuration that variables contain."""
_COMMANDS_IN_VARIABLES: Final = (
    *("GIT_ASKPASS", "GIT_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR"),
    *("GIT_SSH", "GIT_SSH_COMMAND", "SSH_ASKPASS", "EDITOR", "PAGER", "VISUAL"),
)
_DIRECTORIES_IN_VARIABLES: Final = ("GIT_EXEC_PATH", "GIT_TEMPLATE_DIR")
_URLS: Final = {
    "remote": ("url", "pushurl", "pushdefault"),
    "branch": ("remote", "pushremote"),
    "submodule": ("url",),
}
_GROUPS: Final = "remotes"
"""The section whose keys name several remotes each, by name or URL."""
_SECTION_NAME: Final = re.compile(r"(?<![\w-])([\w-]++)\.")
_KEY_NAME: Final = re.compile(r"[\w-]+")
_KEY: Final = re.compile(r"([\w-]+)\.(?:(.+)\.)?([\w-]+)", re.DOTALL)
_FROM_VARIABLE: Final = "--config-env"
REPOSITORY_VARIABLES: Final = ("GIT_DIR", "GIT_COMMON_DIR")
"""Variables that name a repository, wherever it is."""
_PARAMETERS: Final = "GIT_CONFIG_PARAMETERS"
"""What `git -c` passes on: `'core.editor'='vi' ...`."""
_KEYS_IN_VARIABLES, _VALUES_IN_VARIABLES = "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"
_FILES_IN_VARIABLES: Final = ("GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
_OF_GIT: Final = "%(prefix)/"
_IF_THERE: Final = ":(optional)"
"""What git replaces by the directory that it is installed in, at the beginning of a path."""
_USUAL_PREFIXES: Final = ("/", "/usr", "/usr/local", "/opt/homebrew")
_PROGRAM_ENDS: Final = (".js", ".mjs", ".cjs", ".rb", ".pl", ".pm", ".lua", ".php", ".py")
"""Endings that interpreters add to the name of a program (`node tools/build`, `ruby -r./tools/setup`)."""
_OF_DIRECTORY: Final = ("__main__.py", "index.js", "index.mjs", "index.cjs", "package.json")
"""Files that Python and Node run if a directory is named."""
_REPLACED: Final = ("url", ("insteadof", "pushinsteadof"))
_INCLUDES: Final = ("include", "includeif")
_INCLUDED: Final = "path"
_DIRECTORIES: Final = (("core", "hookspath"), ("init", "templatedir"))
_HOOKS: Final = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist"),
    *("p4-post-changelist", "p4-pre-submit", "post-index-change"),
)
"""The names that git runs in a directory of hooks, see githooks(5)."""
_OF_TEMPLATES: Final = ("config", "hooks")
"""What git copies from a directory of templates into a new repository, and runs or follows there."""
_WORK_TREE: Final = ("core", "worktree")
_DATA: Final = {
    "remote": ("url", "pushurl", "pushdefault", "fetch", "push"),
    "branch": ("merge", "remote", "pushremote", "description"),
    "user": ("name", "email"),
    "author": ("name", "email"),
    "committer": ("name", "email"),
    "core": ("excludesfile", "attributesfile", "worktree"),
    "mailmap": ("file", "blob"),
    "commit": ("template",),
    "submodule": ("url",),
    "url": ("insteadof", "pushinsteadof"),
}
"""The keys of each section whose values never name a program."""


class _Entry(NamedTuple):
    section: str
    key: str
    value: str
    subsection: str = ""

    @property
    def is_include(self) -> bool:
        return self.section in _INCLUDES and self.key == _INCLUDED

    @property
    def is_replacement(self) -> bool:
        return self.section == _REPLACED[0] and self.key in _REPLACED[1]

    @property
    def is_url(self) -> bool:
        return self.key in _URLS.get(self.section, ())

    @property
    def is_data(self) -> bool:
        return self.key in _DATA.get(self.section, ())


class Looks:
    """How often a search may still look for a word of a command in a directory, for one repository.

    A statement may write configurations that name thousands of both.
    """

    def __init__(self, repository: str = "", most: int = 20_000) -> None:
        self.too_long = ""
        """The first configuration that was not read to its end, or whose includes were not all read; the repository if
        its commands have too many words and directories; "" if all was looked at."""
        self._repository = repository
        self._left = most

    def take(self) -> bool:
        """Return whether one more is allowed."""
        self._left -= 1
        if self._left < 0:
            self.too_long = self.too_long or self._repository
        return self._left >= 0


def named_by(git: str, top: str, roots: tuple[str, ...], read: set[str], looks: Looks | None = None) -> Iterator[str]:
    """Yield real paths in the roots that git runs, or reads as configuration, because the configuration names them.

    Args:
        git: the absolute path of a repository, or of a file that leads to one.
        top: the root of its work tree; for a bare repository, the repository itself.
        roots: absolute directories, links resolved.
        read: is extended by the files that this reads, anywhere.
        looks: what the search may take, and where it ended early; None if nobody asks.
    """
    looks = looks or Looks()
    by_variables = (os.environ[name] for name in REPOSITORY_VARIABLES if os.environ.get(name))
    named_folders = (real_path(os.path.join(root, each)) for each in by_variables for root in roots)
    folders = tuple(dict.fromkeys((*configured(git, top), *named_folders)))
    tops = (top, *_work_trees(folders), *filter(None, [os.environ.get("GIT_WORK_TREE")]))
    waiting = deque(
        (_ENVIRONMENT, *of_user(), *(os.path.join(folder, name) for folder in folders for name in CONFIGURATIONS))
    )
    urls: list[str] = []
    replaced: list[_Entry] = []
    commands: list[str] = []
    values: set[tuple[str, str, str, str]] = set()
    for path in _each(waiting, looks):
        read.update((path,) if path else ())
        entries = _of_environment(os.environ) if path == _ENVIRONMENT else _entries(path)
        for entry in _different(chain.from_iterable(map(_with_assigned, entries)), values, path, looks):
            urls += _urls_in(entry)
            if entry.is_replacement:
                replaced.append(entry)
            if entry.is_include:
                for named in _expanded(entry.value):
                    included = os.path.join(os.path.dirname(path), named)
                    waiting.append(os.path.normpath(included))  # what that includes is relative to where the link is
                    yield from _inside((included,), roots)
            elif (entry.section, entry.key) in _DIRECTORIES:
                # Hooks of a push run in the repository itself, see githooks(5).
                places = (
                    os.path.join(each, named)
                    for each in (*tops, *folders[:_MOST_PLACES])
                    for named in _expanded(entry.value)
                )
                yield from _inside(_files_of_root(places, roots, entry.key), roots)
            elif not entry.is_data:
                waiting += (os.path.join(each, name) for each in tops for name in _files_in_variables(entry.value))
                commands.append(entry.value)
    # Last, because words that only look like paths are many.
    for command in (*commands, *_transports(urls, replaced)):
        yield from _inside(_programs(command, tops, looks), roots)


def _each(waiting: deque[str], looks: Looks) -> Iterator[str]:
    """Yield each waiting file once, and those that are added meanwhile, until there are _MOST_FILES of them."""
    most = len(waiting) + _MOST_FILES
    seen: set[str] = set()
    while waiting:
        path = waiting.popleft()
        if path in seen:
            continue
        if len(seen) == most:
            looks.too_long = looks.too_long or path
            return
        if _is_too_long(path):
            looks.too_long = looks.too_long or path
        seen.add(path)
        yield path


def _is_too_long(path: str) -> bool:
    try:
        return os.stat(path).st_size > _BYTES
    except OSError:
        return False


def _files_of_root(places: Iterable[str], roots: tuple[str, ...], key: str) -> Iterator[str]:
    """Yield the places; instead of a root, which is not protected as a whole, the files in it that git runs."""
    names = _HOOKS if key == "hookspath" else _OF_TEMPLATES
    for place in places:
        yield place
        if "\0" not in place and real_path(place) in roots:
            yield from (os.path.join(place, name) for name in names)


def _different(
    entries: Iterable[_Entry], values: set[tuple[str, str, str, str]], path: str, looks: Looks
) -> Iterator[_Entry]:
    """Yield the entries of a file whose values are not among these yet, until there are _MOST_VALUES.

    The same include means another file in another directory. Data, such as the names of branches, do not count.
    """
    for entry in entries:
        where = os.path.dirname(path) if entry.is_include else entry.subsection if entry.is_replacement else ""
        value = (entry.section, entry.key, entry.value, where)
        if value in values or (entry.is_data and not entry.is_replacement and not entry.is_url):
            continue
        if len(values) == _MOST_VALUES:
            looks.too_long = looks.too_long or path
            return
        values.add(value)
        yield entry


def _with_assigned(entry: _Entry) -> Iterator[_Entry]:
    """Yield the entry, and the entries that a command in its value passes to git."""
    yield entry
    words = _QUOTES.sub("", entry.value).split()
    yield from islice(filter(None, map(_assigned, words)), _MOST_WORDS)
    for name, value in _passed(entry.value):
        if key := _KEY.fullmatch(name):
            yield _Entry(key[1].lower(), key[3].lower(), value, key[2] or "")


def _assigned(word: str) -> _Entry | None:
    """Return the configuration in a word of a command, as in `git -c core.hooksPath=hooks commit`.

    The time is linear in the word: the host asks, and a statement may have written it.
    """
    parts = word.split("=")
    for number, part in enumerate(parts[:-1], 1):
        place, dot, key = part.rpartition(".")
        if not dot or not _KEY_NAME.fullmatch(key):
            continue
        for section in _SECTION_NAME.finditer(f"{place}."):
            subsection = place[section.end() :]
            if subsection or section.end() > len(place):
                return _Entry(section[1].lower(), key.lower(), "=".join(parts[number:]), subsection)
    return None


def _passed(command: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of configuration that a command passes to git, also in environment variables."""
    variables = dict(assignments_in(command))
    for word in words_in(command):
        name, _, value = word.partition("=")
        if name == _FROM_VARIABLE:
            key, _, variable = value.rpartition("=")
            yield key, variables.get(variable, "")
        elif value:
            yield name, value
    for variable, name in variables.items():
        if variable.startswith(_KEYS_IN_VARIABLES):
            yield name, variables.get(variable.replace(_KEYS_IN_VARIABLES, _VALUES_IN_VARIABLES), "")


def _of_environment(variables: Mapping[str, str]) -> Iterator[_Entry]:
    """Yield what the user's variables say as if a configuration did, see "ENVIRONMENT VARIABLES" in git(1)."""
    for variable, value in variables.items():
        if variable in _COMMANDS_IN_VARIABLES:
            yield _Entry("core", "editor", value)
        elif variable in _DIRECTORIES_IN_VARIABLES:
            yield _Entry(*_DIRECTORIES[1], value)
        elif variable == _PARAMETERS:
            with suppress(ValueError):  # an unbalanced quotation mark, which git refuses
                yield from filter(None, map(_assigned, shlex.split(value)))
        elif variable.startswith(_KEYS_IN_VARIABLES) and (key := _KEY.fullmatch(value)):
            named = variables.get(variable.replace(_KEYS_IN_VARIABLES, _VALUES_IN_VARIABLES), "")
            yield _Entry(key[1].lower(), key[3].lower(), named, key[2] or "")


def _files_in_variables(command: str) -> Iterator[str]:
    """Yield the configuration files that variables of a command name."""
    yield from (value for name, value in assignments_in(command) if name in _FILES_IN_VARIABLES and value)


def _expanded(path: str) -> Iterator[str]:
    """Yield what a path in the configuration may mean; where git is installed is not known for sure."""
    path = path.removeprefix(_IF_THERE)
    if not path.startswith(_OF_GIT):
        yield os.path.expanduser(path)
        return
    program = shutil.which("git") or ""
    found = (os.path.dirname(os.path.dirname(each)) for each in (program, real_path(program)) if each)
    for prefix in dict.fromkeys((*_USUAL_PREFIXES, *found)):
        yield os.path.join(prefix, path.removeprefix(_OF_GIT))


def _urls_in(entry: _Entry) -> Sequence[str]:
    """Return what an entry names as remotes, by URL or name."""
    if entry.section == _GROUPS:
        return entry.value.split()
    return (entry.value,) if entry.is_url else ()


def _transports(urls: Iterable[str], replaced: Iterable[_Entry]) -> Iterator[str]:
    """Yield the commands of URLs with a transport, before and after replacements; see git-remote-ext(1)."""
    meant = [*urls]
    for entry in replaced:
        meant.append(entry.subsection)  # the beginning of any URL given on the command line
        meant += [entry.subsection + url.removeprefix(entry.value) for url in urls if url.startswith(entry.value)]
    for url in meant:
        _, transport, command = url.partition(_TRANSPORT)
        if transport:
            yield command
            yield re.sub("%(.)", r"\1", command)


def beginning_of(path: str) -> str:
    """Return the first MiB of a file; "" if the path is not a readable file."""
    try:
        with opened_file(path) as file:
            return file.read(_BYTES).decode(errors="surrogateescape").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""


def of_user() -> tuple[str, ...]:
    """Return the configuration files that git reads for every repository, see "FILES" in git-config(1)."""
    usual = ("/etc/gitconfig", "~/.gitconfig", "~/.config/git/config")
    home = os.environ.get("XDG_CONFIG_HOME", "")
    named = (os.environ.get("GIT_CONFIG_SYSTEM", ""), os.environ.get("GIT_CONFIG_GLOBAL", ""))
    others = filter(os.path.isabs, (*named, os.path.join(home, "git/config")))
    return (*map(os.path.expanduser, usual), *others)


def _inside(places: Iterable[str], roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the real paths of the places, and of each link on their ways, that are in the roots."""
    found = (each for place in places if "\0" not in place for each in (*links_to(place), real_path(place)))
    return (place for place in found if place not in roots and is_inside(place, roots))


def configured(git: str, top: str) -> Iterator[str]:
    """Yield the git directories that may configure a work tree: its own, the common one, and those of linked trees."""
    folder = git
    if os.path.isfile(git):
        folder = os.path.join(top, beginning_of(git).partition("gitdir:")[2].strip())
    yield folder
    common = beginning_of(os.path.join(folder, COMMON_DIR)).strip()
    if common:
        yield os.path.join(folder, common)
    yield from work_trees_in(folder)


def work_trees_in(git: str) -> list[str]:
    """Return the first _MOST_WORK_TREES directories of a repository's linked work trees."""
    try:
        names = sorted(os.listdir(os.path.join(git, WORK_TREES)))[:_MOST_WORK_TREES]
    except OSError:
        return []
    return [os.path.join(git, WORK_TREES, name) for name in names]


def _work_trees(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for name in CONFIGURATIONS:
            for entry in _entries(os.path.join(folder, name)):
                if (entry.section, entry.key) == _WORK_TREE:
                    yield os.path.normpath(os.path.join(folder, entry.value))


def _entries(path: str) -> Iterator[_Entry]:
    section = subsection = ""
    lines = iter(beginning_of(path).removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))
    for line in lines:
        start = 0
        while head := _SECTION.match(line, start):
            section, start = head[1].partition(".")[0].lower(), head.end()
            subsection = re.sub(r"\\(.)", r"\1", head[2] or "") or head[1].partition(".")[2]
        if entry := _ENTRY.match(line, start):
            yield _Entry(section, entry[1].lower(), _unquoted(_with_next(entry[2], lines)), subsection)


def _with_next(first: str, lines: Iterator[str]) -> str:
    """Return a value with the lines on which it continues.

    Each of its lines ends in a backslash, not escaped and not in a comment, except the last.
    """
    parts, is_quoted = [first], False
    while _ends_escaped(parts[-1]):
        line = f'"{parts[-1]}' if is_quoted else parts[-1]
        if any(comment for _, _, comment, _ in _VALUE.findall(line)):
            break
        is_quoted = sum(map(len, _UNESCAPED_QUOTE.findall(line))) % 2 == 1
        parts[-1] = parts[-1][:-1]
        parts.append(next(lines, ""))
    return "".join(parts)


def _ends_escaped(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unquoted(value: str) -> str:
    """Return a value without its quotes, escapes resolved, and without a comment after it."""
    parts: list[str] = []
    for quoted, escaped, comment, plain in _VALUE.findall(value):
        if comment:
            break
        parts.append(_ESCAPED.sub(_meant, quoted) or _BLANKS.get(escaped, escaped) or plain)
    return "".join(parts).rstrip()


def _meant(escape: re.Match[str]) -> str:
    return _BLANKS.get(escape[1], escape[1])


def _programs(value: str, tops: tuple[str, ...], looks: Looks) -> Iterator[str]:
    """Yield paths of what a command may run, relative to a top or to a directory that the command names (`cd`)."""
    words = dict.fromkeys(word for word in _words(value) if "\0" not in word)
    scripts = run_if_created(value)
    given = paths_given_in(value)
    for folder in _folders(words, tops, looks):
        yield from (os.path.join(folder, os.path.expanduser(each)) for each in given)
        for word in words:
            if not looks.take():
                return
            place = os.path.join(folder, word)
            if folder != place and os.path.isdir(place):
                yield from (os.path.join(place, name) for name in _OF_DIRECTORY)
            if _may_be_program(place, word) or word in scripts:
                yield place
                if not os.path.isfile(place) and not (word in scripts and is_script(word)):
                    yield from (place + end for end in _PROGRAM_ENDS)
            else:
                yield from (place + end for end in _PROGRAM_ENDS if os.path.isfile(place + end))


def _folders(words: Iterable[str], tops: tuple[str, ...], looks: Looks) -> Iterable[str]:
    """Return the directories that a command may be in when it runs something: the tops, and any it may `cd` to."""
    found = dict.fromkeys(tops)
    waiting = deque(tops)
    steps = [word for word in words if not word.startswith("-")]
    while waiting:
        here = waiting.popleft()
        for word in steps:
            if not looks.take():
                return found
            there = os.path.normpath(os.path.join(here, word))
            if len(found) < _MOST_FOLDERS and there not in found and os.path.isdir(there):
                found[there] = None
                waiting.append(there)
    return found


def _words(value: str) -> list[str]:
    command = _HERE.sub("", value.lstrip("!"))
    plain = _QUOTES.sub("", command)  # a word may be quoted in part
    split = (*_BETWEEN_WORDS.split(command), *_BETWEEN_WORDS.split(plain))
    words = [command.strip(), *_QUOTED.findall(command), *split, *words_in(command)]
    words += [_OPTION.sub("", word, count=1) for word in words if _OPTION.match(word)]  # `-fPROGRAM`
    return [os.path.expanduser(word) for word in words if word][:_MOST_WORDS]


def _may_be_program(place: str, word: str) -> bool:
    """Return whether a word of a command may be a program: it is a file, or looks like the path of one."""
    return os.path.isfile(place) or ("/" in word and not os.path.isdir(place))
