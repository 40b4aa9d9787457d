"""A project with all that other programs run by themselves, and statements that try to plant a program there."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

EVIL: Final = '[core]\\n\\tfsmonitor = \\"touch {marker}; false\\"\\n'
HOOK: Final = "#!/bin/sh\\ntouch {marker}\\n"

PLANTS: Final[dict[str, str]] = {
    "open": "with open('.git/config', 'a') as f: f.write(EVIL)",
    "open left open": "kept = open('.git/config', 'a'); kept.write(EVIL)",
    "write": "write('.git/config', EVIL)",
    "edit": "edit('.git/config', '[core]', EVIL + '[core]')",
    "hook": "write('.git/hooks/post-checkout', HOOK)",
    "hook by pathlib": "import pathlib; pathlib.Path('.git/hooks/post-checkout').write_text(HOOK)",
    "hook by descriptor": (
        "import os; fd = os.open('.git/hooks/post-checkout', os.O_WRONLY | os.O_CREAT, 0o755)\n"
        "os.write(fd, HOOK.encode()); os.close(fd)"
    ),
    "hook by FileIO": "import io; f = io.FileIO('.git/hooks/post-checkout', 'w'); f.write(HOOK.encode()); f.close()",
    "existing hook made executable": "import os; os.chmod('.git/hooks/update.sample', 0o777)",
    "configuration of the work tree": "write('.git/config.worktree', EVIL)",
    "other common directory": "write('.git/commondir', '../evil')",
    "rebase to do": "write('.git/rebase-merge/git-rebase-todo', 'exec touch {marker}')",
    "submodule": "write('.git/modules/s/config', EVIL)",
    "submodule's hook": "write('.git/modules/s/hooks/post-checkout', HOOK)",
    "nested repository": "with open('nested/.git/config', 'a') as f: f.write(EVIL)",
    "bare repository": "write('bare.git/config', EVIL)",
    "git dir of another name": "write('elsewhere/config', EVIL)",
    "git file": "write('linked/.git', 'gitdir: ../evil')",
    "link to the repository": (
        "import os; os.symlink('.git', 'link')\nwith open('link/config', 'a') as f: f.write(EVIL)"
    ),
    "link to the file": "import os; os.symlink('.git/config', 'link')\nwrite('link', EVIL)",
    "relative way": "write('src/../.git/../.git/./config', EVIL)",
    "other case": "write('.GIT/Config', EVIL)",
    "hard link": "import os; os.link('.git/config', 'src/c')\nwith open('src/c', 'a') as f: f.write(EVIL)",
    "directory over": (
        "import os, shutil; os.makedirs('src/e'); write('src/e/tasks.json', '{{}}')\n"
        "shutil.move('src/e', 'tools/.vscode')"
    ),
    "rename over": "write('src/c', EVIL)\nimport os; os.replace('src/c', '.git/config')",
    "rename from scratch": (
        "import os, tempfile; place = os.path.join(tempfile.gettempdir(), 'c')\n"
        "with open(place, 'w') as f: f.write(EVIL)\nos.replace(place, '.git/config')"
    ),
    "move": "write('src/c', EVIL)\nimport shutil; shutil.move('src/c', '.git/config')",
    "copy": "write('src/c', EVIL)\nimport shutil; shutil.copy('src/c', '.git/config')",
    "repository moved away": "import os; os.rename('.git', 'old')",
    "hooks moved away": "import os; os.rename('.git/hooks', '.git/old')",
    "repository removed": "import shutil; shutil.rmtree('.git')",
    "configuration removed": "import os; os.remove('.git/config')",
    "configuration emptied": "import os; os.truncate('.git/config', 0)",
    "link as a repository": "import os; os.mkdir('src/evil'); os.symlink('evil', 'src/.git')",
    "repository made later": "import os; os.makedirs('src/.git/hooks'); write('src/.git/config', EVIL)",
    "bare repository made later": (
        "import os\nfor name in ('objects', 'refs'): os.makedirs(f'later/{{name}}', exist_ok=True)\n"
        "write('later/config', EVIL); write('later/HEAD', 'ref: refs/heads/main\\n')"
    ),
    "named hooks": "write('tools/hooks/post-checkout', HOOK)",
    "included configuration": "write('team.config', EVIL)",
    "from a thread": (
        "import threading, pathlib\nlost = []\ndef go():\n"
        "    try: pathlib.Path('.git/config').write_text(EVIL)\n    except OSError as e: lost.append(e)\n"
        "t = threading.Thread(target=go); t.start(); t.join()\nif lost: raise lost[0]"
    ),
    "direnv": "write('.envrc', 'touch {marker}')",
    "tasks": "write('.vscode/tasks.json', '{{}}')",
    "settings": "import pathlib; pathlib.Path('.vscode/settings.json').write_text('{{}}')",
    "JetBrains": "import os; os.makedirs('.idea/runConfigurations')",
    "husky": "write('.husky/pre-commit', HOOK)",
    "pre-commit": "open('.pre-commit-config.yaml', 'w').write('x')",
    "workspace": "write('team.code-workspace', '{{}}')",
    "included by what is included": "with open('deep.config', 'a') as f: f.write(EVIL)",
    "pager of one command": "write('tools/show', HOOK)",
    "what a link of that name leads to": "import pathlib; pathlib.Path('dev/mise.toml').write_text('x')",
    "directory of what is included": "import os; os.mkdir('src/e'); os.symlink('src/e', 'ghost')",
    "directory that completes a repository": (
        "import os\nos.makedirs('later/objects'); write('later/HEAD', 'ref: refs/heads/main\\n')\n"
        "write('later/config', EVIL); os.makedirs('later/refs/heads')"
    ),
    "link that completes a repository": (
        "import os\nos.makedirs('later/objects'); write('later/HEAD', 'ref: refs/heads/main\\n')\n"
        "write('later/config', EVIL); os.symlink('../src', 'later/refs')"
    ),
    "further name that completes a repository": (
        "import os\nfor name in ('objects', 'refs'): os.makedirs(f'later/{{name}}')\n"
        "write('later/config', EVIL); write('later/H', 'ref: refs/heads/main\\n'); os.link('later/H', 'later/HEAD')"
    ),
}
"""Each is a statement that must do nothing of the sort while nobody allows it."""

HELD: Final[dict[str, str]] = {
    "shell": "import subprocess; subprocess.run(['sh', '-c', 'printf x >> .git/config'], check=True)",
    "command": "assert bash('printf x >> .git/config').code == 0",
    "hook by a command": "assert bash('echo x > .git/hooks/post-checkout').code == 0",
    "git": "assert bash('git config core.fsmonitor \"touch {marker}; false\"').code == 0",
    "C code": (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "fd = libc.open(b'.git/config', 0o2001)\nif fd < 0: raise OSError(ctypes.get_errno(), 'open')\n"
        "libc.write(fd, b'x', 1)"
    ),
    "fork": (
        "import os\npid = os.fork()\nif pid == 0:\n"
        "    try: open('.git/config', 'a').write('x')\n    finally: os._exit(0)\nos.waitpid(pid, 0); 1/0"
    ),
    "existing tasks": "assert bash('echo x >> .vscode/launch.json').code == 0",
    "tasks below": "assert bash('echo x >> src/.vscode/tasks.json').code == 0",
    "direnv below": "assert bash('echo x >> src/deep/.envrc').code == 0",
    "what is under way": "assert bash('echo exec touch {marker} >> .git/sequencer/todo').code == 0",
    "work tree": "assert bash('echo ../evil > .git/worktrees/w/commondir').code == 0",
    "what a link leads to": "assert bash('echo x >> dev/mise.toml').code == 0",
}


def project(path: Path) -> Path:
    """A work tree with a submodule, a nested and a bare repository, and configuration of editors."""
    path.mkdir(parents=True)
    _git(path, "init", "-q")
    for name, where in (("s", ".git/modules"), ("nested", "."), ("bare.git", "."), ("elsewhere", ".")):
        options = ["--bare"] if name != "nested" else []
        _git(path, "init", "-q", *options, str(path / where / name))
    for folder in ("src", "linked", ".vscode", "tools/hooks"):
        (path / folder).mkdir(parents=True)
    (path / "linked/.git").write_text("gitdir: ../elsewhere\n")
    (path / ".vscode/launch.json").write_text("{}\n")
    (path / "src/main.py").write_text("x = 1\n")
    for name in ("src/.vscode/tasks.json", "src/deep/.envrc", ".git/sequencer/todo", ".git/worktrees/w/commondir"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("")
    (path / "dev").mkdir()
    (path / "dev/mise.toml").write_text("")
    (path / ".mise.toml").symlink_to("dev/mise.toml")
    (path / "shared.config").write_text("[include]\n\tpath = deep.config\n\tpath = ghost/more.config\n")
    _git(path, "config", "--add", "include.path", "../team.config")
    _git(path, "config", "--add", "include.path", "../shared.config")
    _git(path, "config", "pager.log", "tools/show")
    _git(path, "config", "alias.st", "!tools/hooks/post-checkout")
    return path


def installed_in(environment: Path) -> Path:
    """Makes a virtual environment with this program in it; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    ours = (each for each in sys.path if os.path.basename(each) == "site-packages")
    (packages / "rewindow.pth").write_text("\n".join([str(Path(__file__).parents[2]), *ours]) + "\n")
    return environment / "bin" / "python"


def witness(path: Path) -> dict[str, str]:
    """What is at each protected place: the digest of a file, the target of a link."""
    found: dict[str, str] = {}
    for each in sorted(path.rglob("*")):
        name = str(each.relative_to(path))
        if each.is_symlink():
            found[name] = os.readlink(each)
        elif each.is_file():
            found[name] = f"{oct(each.stat().st_mode)} {hashlib.sha256(each.read_bytes()).hexdigest()}"
        else:
            found[name] = "directory"
    return found


def filled(statement: str, marker: Path) -> str:
    """The statement as a model writes it, with the marker that its program would make."""
    names = f'EVIL = "{EVIL}"\nHOOK = "{HOOK}"\n'.replace("{marker}", str(marker))
    return names + statement.replace("{{", "{").replace("}}", "}").replace("{marker}", str(marker))


def is_planted(path: Path, marker: Path) -> bool:
    """Whether what a user runs in there makes the marker."""
    for folder in (path, path / "nested", path / "linked", path / "src", path / "later"):
        if not folder.is_dir():
            continue
        for command in (("status",), ("st",), ("-c", "user.name=a", "-c", "user.email=a", "checkout", "-q", "-B", "x")):
            subprocess.run(
                ["git", "-c", "safe.directory=*", *command], cwd=folder, capture_output=True, check=False, timeout=30
            )
    return marker.exists()


def _git(path: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "init.defaultBranch=main", *arguments], cwd=path, check=True, capture_output=True)
