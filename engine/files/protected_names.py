"""The names of files that other programs run by themselves, and what runs them when.

One table, and what is not a plain name: git's own files, modules that Python imports at its start, and workspaces of
editors. Names are compared as file systems without case and Unicode forms do. Pure. Used by `protected`, which looks
for such files on the disk.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .git_configuration import COMMON_DIR
from .spellings import folded


class Row(NamedTuple):
    """A protected file or directory with all its content, by name; `runs` says which program runs it when.

    A name with a slash means the second part in a directory named like the first.
    """

    name: str
    runs: str


_SHELL: Final = "your shell runs this file when it starts or exits"
_GIT_OF_USER: Final = "git runs programs named in this file, in every repository"

_MISE: Final = "mise runs the hooks of this file in each shell that enters the directory"
_SHIMS: Final = "rustup, asdf and similar tools read here which program runs as `cargo` or `node` in the directory"
_LEFTHOOK: Final = "lefthook runs the programs named here as git hooks"
_OF_LEFTHOOK: Final = (
    *(
        f"{lead}lefthook{local}.{suffix}"
        for lead in ("", ".", ".config/")
        for local in ("", "-local")
        for suffix in ("yml", "yaml", "toml", "json", "jsonc")
    ),
    *(".lefthook", ".lefthook-local"),
)
"""The files that lefthook reads (lefthook.dev, "Config file name"), and its directories of scripts."""
_MERCURIAL: Final = "Mercurial runs hooks and programs named in this file, or finds its configuration by it"
_NPX: Final = "npm, npx and similar tools run code named in this file, even when they start an MCP server"
_PROVIDERS: Final = "libraries of model providers read here which programs to run and where to send keys"
_LOADED: Final = "programs, including Rewindow, read here which code to load or which servers to trust"
DATABASES: Final = "Rewindow and other programs read here which server to send sessions, queries and passwords to"
_PYTHON: Final = "Python runs this file at each start, if its directory is on the import path"

_PACKAGES: Final = "Python imports packages of yours from here, and runs `.pth` files of this directory at each start"

_EMACS: Final = "Emacs evaluates this file when you open another file in the directory"

_CUSTOMIZING: Final = ("sitecustomize", "usercustomize")
"""Modules that Python imports when it starts. A file counts whatever follows a dot: source, bytecode, or a library."""

CONFIGURATION: Final = ".config/"
OWN: Final = f"{CONFIGURATION}rewindow"

ROWS: Final[tuple[Row, ...]] = (
    Row(".envrc", "direnv runs this file in each shell that enters the directory"),
    Row(".mise.toml", _MISE),
    Row("mise.toml", _MISE),
    Row(".mise.local.toml", _MISE),
    Row("mise.local.toml", _MISE),
    *(Row(name, _SHIMS) for name in (".tool-versions", ".python-version", ".python-versions")),
    Row("rust-toolchain", _SHIMS),
    Row("rust-toolchain.toml", _SHIMS),
    *(Row(f".cargo/{name}", "cargo runs programs named in this file") for name in ("config", "config.toml")),
    *(Row(f".cargo/{name}", "shells find programs in this place") for name in ("bin", "env")),
    Row(".config/direnv", "direnv runs this file in each shell"),
    Row(".asdfrc", "asdf runs the hooks that this file names"),
    Row(".tmux.conf", "tmux runs the commands in this file when it starts"),
    Row(".vscode", "VS Code and similar editors run programs and tasks from here when they open the directory"),
    Row(".idea", "JetBrains IDEs read run configurations and tools from here when they open the directory"),
    Row(".zed", "Zed reads tasks and language servers from here when opening the directory"),
    Row(".devcontainer", "editors run commands from here when they open the directory in a container"),
    Row(".devcontainer.json", "editors run commands from here when they open the directory in a container"),
    Row(".exrc", "Vim and Neovim run this file when started in the directory, if `exrc` is set"),
    Row(".nvimrc", "Neovim runs this file when started in the directory, if `exrc` is set"),
    Row(".nvim.lua", "Neovim runs this file when started in the directory, if `exrc` is set"),
    *(Row(name, _EMACS) for name in (".dir-locals.el", ".dir-locals-2.el")),
    Row(".Rprofile", "R runs this file when started in the directory"),
    Row(".pdbrc", "Python's debugger runs this file when started in the directory"),
    *(Row(name, _MISE) for name in (".mise", ".config/mise", "mise/config.toml", ".miserc.toml")),
    Row(".gdbinit", "gdb runs this file when started in the directory"),
    Row(".lldbinit", "lldb runs this file when started in the directory"),
    Row(".husky", "git runs the scripts in this directory as hooks"),
    Row(".githooks", "git runs the scripts in this directory as hooks, if `core.hooksPath` names it"),
    Row(".pre-commit-config.yaml", "pre-commit runs the programs named in this file at each commit"),
    *(Row(name, _LEFTHOOK) for name in _OF_LEFTHOOK),
    *(Row(f".hg/{name}", _MERCURIAL) for name in ("hgrc", "hgrc-not-shared", "sharedpath")),
    *(
        Row(name, _NPX)
        for name in (".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", "bunfig.toml")
    ),
    Row("pnpm-workspace.yaml", _NPX),
    *(Row(name, _PYTHON) for name in _CUSTOMIZING),
    Row(".bashrc", _SHELL),
    Row(".bash_profile", _SHELL),
    Row(".bash_login", _SHELL),
    Row(".bash_logout", _SHELL),
    Row(".bash_aliases", _SHELL),
    Row(".bash_completion", _SHELL),
    Row(".inputrc", "bash runs the commands that this file binds to keys"),
    Row(".profile", _SHELL),
    Row(".zshrc", _SHELL),
    Row(".zshenv", _SHELL),
    Row(".zprofile", _SHELL),
    Row(".zlogin", _SHELL),
    Row(".zlogout", _SHELL),
    Row(".config/fish", _SHELL),
    *(Row(name, _SHELL) for name in (".xprofile", ".xsessionrc", ".xsession", ".xinitrc", ".pam_environment")),
    Row(".config/environment.d", _SHELL),
    Row(".config/autostart", "the desktop starts the programs named in this file"),
    Row(".config/systemd", "systemd starts the programs named in this file"),
    Row(".config/git", _GIT_OF_USER),
    Row(".gitconfig", _GIT_OF_USER),
    Row(".config/nvim", "Neovim runs this file at startup"),
    *(Row(name, "Vim runs this file at startup") for name in (".vimrc", ".vim")),
    Row(".emacs.d", "Emacs runs this file at startup"),
    Row(".config/emacs", "Emacs runs this file at startup"),
    Row(".ssh", "ssh runs commands and accepts keys that are configured here"),
    Row(".local/bin", "shells find programs in this directory"),
    Row(".local/lib", _PACKAGES),
    Row(f"{CONFIGURATION}python_keyring", "Rewindow and other programs import the keyring that is named here"),
    Row(OWN, "Rewindow reads its settings and keys from here"),
    *(Row(name, _PROVIDERS) for name in (".config/gcloud", ".config/anthropic", ".secureConnect", ".aws", ".azure")),
    *(Row(name, DATABASES) for name in (".pg_service.conf", ".pgpass", ".postgresql")),
    Row(".mcp.json", "coding agents start the MCP servers named in this file when they open the directory"),
    Row(".claude", "Claude Code runs the hooks named in its settings"),
    Row(".claude.json", "Claude Code starts the MCP servers named in this file"),
    Row(".cursor", "Cursor starts the MCP servers and hooks named in this file"),
    Row(".gemini", "Gemini CLI starts the MCP servers named in its settings"),
    Row(".codex", "Codex starts the MCP servers named in its settings"),
    *(
        Row(name, "OpenCode loads plugins and starts the MCP servers named here")
        for name in (".opencode", "opencode.json", "opencode.jsonc")
    ),
    Row(".qwen", "Qwen Code starts the MCP servers named in its settings"),
    Row(".kiro", "Kiro starts the MCP servers and hooks named in its settings"),
    Row(".windsurf", "Windsurf runs the hooks named in its settings"),
    *(
        Row(name, "Copilot runs the hooks and starts the MCP servers named here")
        for name in (".github/hooks", ".copilot")
    ),
)
BY_VARIABLE: Final = {
    **dict.fromkeys(("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_CERTIFICATE_CONFIG", "CLOUDSDK_CONFIG"), _PROVIDERS),
    **dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"), _PROVIDERS),
    **dict.fromkeys(("ANTHROPIC_CONFIG_DIR", "ANTHROPIC_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"), _PROVIDERS),
    **dict.fromkeys(("OPENSSL_CONF", "OPENSSL_MODULES", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_PRELOAD"), _LOADED),
    **dict.fromkeys(("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), _LOADED),
    **dict.fromkeys(("PGSERVICEFILE", "PGPASSFILE", "PGSYSCONFDIR"), DATABASES),
    **dict.fromkeys(("PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "PGSSLCRLDIR"), DATABASES),
    **dict.fromkeys(("BASH_ENV", "ENV"), _SHELL),
    "PYTHONSTARTUP": _PYTHON,
    "NPM_CONFIG_USERCONFIG": _NPX,
    "GIT_CONFIG_GLOBAL": _GIT_OF_USER,
    "GIT_CONFIG_SYSTEM": _GIT_OF_USER,
}
"""Variables that name such a file or directory, wherever it is, and what reads it. A relative path means any root."""
BY_NAME: Final = {row.name.casefold(): row.runs for row in ROWS}
"""What runs it, by the name in lower case."""
TWO_PARTS: Final = tuple((first, second) for first, _, second in (name.partition("/") for name in BY_NAME) if second)
ABOVE_ROWS: Final = frozenset(first for first, _ in TWO_PARTS)
WORKSPACE_SUFFIX: Final = ".code-workspace"
_OF_EDITORS: Final = "VS Code runs tasks and programs from this workspace file"

GIT: Final = ".git"
HEAD, OBJECTS, REFS = "head", "objects", "refs"
GIT_RUNS: Final = {
    "config": "git runs programs named in this file, even for `git status`",
    "config.worktree": "git runs programs named in this file, even for `git status`",
    "hooks": "git runs the programs in this directory",
    COMMON_DIR: "this file redirects git to another configuration, which names programs to run",
    "gitdir": "this file redirects git to another work tree",
    "rebase-merge": "`git rebase --continue` runs the commands in this directory",
    "rebase-apply": "`git rebase --continue` runs the commands in this directory",
    "sequencer": "`git cherry-pick --continue` follows the instructions in this directory",
}
_REMOTES: Final = "git runs commands or hooks of the remotes named in this file"
GIT_TOP_RUNS: Final = {
    "remotes": _REMOTES,
    "branches": _REMOTES,
    "safe": "some shells find programs in the work tree if this directory exists",
}
"""Like GIT_RUNS, but not further down, where there are branches of these names."""
GIT_DATA: Final = (OBJECTS, REFS, "logs")
"""Directories of a repository in which names do not count, because a branch may be called `config`."""
_GIT_ITSELF: Final = "git reads its configuration and hooks from the target of this file"


_IGNORED: Final = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
"""Characters that HFS+ ignores in names; git refuses them in `.git` for that reason (utf8.c)."""


def fold(name: str) -> str:
    """Return a name or a path as these tables have it, whatever spelling finds the file."""
    return folded(name if name.isascii() else name.translate(_IGNORED))


def is_in_git(path: str, roots: tuple[str, ...]) -> bool:
    """Return whether a path below one of the roots is a `.git` or below one."""
    return any(GIT in fold(path[len(root) :]).split("/") for root in roots if path.startswith(root))


def why_by_name(parts: list[str]) -> str:
    """Return why a path is protected, by its folded parts; "" if their names do not say so."""
    for number, part in enumerate(parts):
        if part == GIT and (reason := why_in_git(parts[number + 1 :])):
            return reason
        for name in (part, stem_of(part), "/".join(parts[number : number + 2])):
            if name in BY_NAME:
                return BY_NAME[name]
    return _OF_EDITORS if parts[-1].endswith(WORKSPACE_SUFFIX) else ""


def why_in_git(below: list[str]) -> str:
    """Return why a path below a repository is protected, by its names."""
    if not below:
        return _GIT_ITSELF
    if below[0] in GIT_DATA:
        return ""
    if below[0] in GIT_TOP_RUNS:
        return GIT_TOP_RUNS[below[0]]
    return next((GIT_RUNS[name] for name in below if name in GIT_RUNS), "")


def stem_of(name: str) -> str:
    """Return the name of a module that Python imports at its start, without what follows; any other as it is."""
    stem = name.partition(".")[0]
    return stem if stem in _CUSTOMIZING else name
