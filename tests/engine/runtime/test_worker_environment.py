"""Members of environments, and what a statement finds in a worker: imports, surroundings, variables, rights."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import psutil
import pytest
from msgspec.structs import replace

from engine.core.domain import Domain
from engine.core.programs import CommandRequest
from engine.log.redaction import NO_SECRETS
from engine.runtime.environment import Environment, EnvironmentSpec
from engine.runtime.programs import program_variables, worker_variables
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import refuse, request, spec_for
from tests.support.in_process import InProcessEnvironment
from tests.support.workers import WorkerBench, bench, new_worker, shared_zygote

MEMBERS = sorted(name for name in vars(Environment) if not name.startswith("_"))


def shape(kind: type, member: str) -> tuple[object, ...]:
    """What a type checker compares: whether it is awaited, its parameters, and all types."""
    found = inspect.getattr_static(kind, member)
    function = found.fget if isinstance(found, property) else found
    parameters = [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]
    return isinstance(found, property), inspect.iscoroutinefunction(function), parameters, get_type_hints(function)


@pytest.mark.parametrize("kind", [InProcessEnvironment, WorkerEnvironment])
@pytest.mark.parametrize("member", MEMBERS)
def test_environment_has_member_with_its_types(kind: type, member: str) -> None:
    assert shape(kind, member) == shape(Environment, member)


def test_new_environment_starts_no_process() -> None:
    first, second = new_worker(), new_worker()
    assert first is not second
    assert not first.alive
    assert first.pid is None


async def test_a_projects_own_engine_package_is_what_statements_import(b: WorkerBench, tmp_path: Path) -> None:
    for name in ("engine", "conformance", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    assert await b.value("import sys; 'engine' in sys.modules") == "False"
    assert await b.value("import engine, conformance, tests; engine.MINE, conformance.MINE, tests.MINE") == (
        "(True, True, True)"
    )


async def test_the_environment_is_the_specs_and_nothing_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-statements")
    async with bench(tmp_path) as b:
        names = await b.value("import os; sorted(os.environ)")
        assert names == "['HOME', 'PATH', 'PYTHONHASHSEED']"
        leaked = await b.value("b'sk-not' in open('/proc/self/environ', 'rb').read()")
        assert leaked == "False"
        assert await b.value("os.getcwd()") == repr(str(tmp_path))


async def test_import_paths_follow_the_standard_library_with_pth_files(tmp_path: Path) -> None:
    site, extra = tmp_path / "site", tmp_path / "extra"
    site.mkdir()
    extra.mkdir()
    (site / "json.py").write_text("WRONG = True")
    (site / "theirs.py").write_text("X = 1")
    (site / "link.pth").write_text(str(extra))
    (extra / "linked.py").write_text("Y = 2")
    environment = WorkerEnvironment(shared_zygote())
    try:
        await environment.start(replace(spec_for(tmp_path), import_paths=(str(site),)))
        asked = request("import json, theirs, linked; hasattr(json, 'WRONG'), theirs.X, linked.Y")
        outcome = await environment.run(asked, refuse, lambda *_: None)
        assert outcome.value == "(False, 1, 2)"
    finally:
        await environment.close()


async def test_classes_of_statements_can_be_pickled(b: WorkerBench) -> None:
    await b.run("class A:\n    x = 1\na = A()")
    assert await b.value("import pickle; pickle.loads(pickle.dumps(A())).x") == "1"
    assert (await b.run("a.x = 2")).diff.changed["a"].mutated


VARIABLES = {"PATH": "/usr/bin:.:/work/bin:bin:/state/scratch/s/x::/usr/local/bin", "TMPDIR": "/tmp/mine", "ENV": "/x"}
SPEC = EnvironmentSpec(cwd="/work", redactor=NO_SECRETS, variables=VARIABLES)
HELD = EnvironmentSpec(cwd="/work", redactor=NO_SECRETS, variables=VARIABLES, domain=Domain(scratch="/state/scratch/s"))


def program(*, domain: Domain | None = None, distrusted: tuple[str, ...] = ()) -> CommandRequest:
    return CommandRequest(argv=("/bin/true",), cwd="/", seconds=1, kept_bytes=1, domain=domain, distrusted=distrusted)


def test_worker_without_a_domain_has_variables_unchanged() -> None:
    assert worker_variables(SPEC) == VARIABLES


def test_worker_in_a_domain_uses_scratch_for_temporary_files() -> None:
    changed = {name: value for name, value in worker_variables(HELD).items() if VARIABLES.get(name) != value}
    assert changed.pop("PYTEST_ADDOPTS") == "-o cache_dir=/state/scratch/s/pytest"
    assert all(value == "/state/scratch/s" or value.startswith("/state/scratch/s/") for value in changed.values())
    assert {"TMPDIR", "PYTHONPYCACHEPREFIX", "XDG_CACHE_HOME", "MPLCONFIGDIR"} <= changed.keys()


def test_options_of_pytest_stay_those_of_the_user() -> None:
    given = replace(HELD, variables={"PYTEST_ADDOPTS": "-x -q"}, domain=Domain(scratch="/state/a b"))
    assert worker_variables(given)["PYTEST_ADDOPTS"] == "-x -q -o 'cache_dir=/state/a b/pytest'"


def test_confined_program_has_the_workers_variables() -> None:
    assert program_variables(HELD, program(domain=HELD.domain))["TMPDIR"] == "/state/scratch/s"
    assert program_variables(HELD, program())["TMPDIR"] == "/tmp/mine"
    assert not {"PYTHONPYCACHEPREFIX", "XDG_CACHE_HOME", "ENV"} & program_variables(HELD, program()).keys()


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
def test_outside_program_finds_nothing_in_writable_directories(name: str) -> None:
    given = {**VARIABLES, name: VARIABLES["PATH"]}
    distrusted = program(distrusted=("/state/scratch/s", "/work"))
    assert program_variables(replace(HELD, variables=given), distrusted)[name] == "/usr/bin:/usr/local/bin"
    assert program_variables(replace(SPEC, variables=given), program())[name] == VARIABLES["PATH"]
    assert "LD_LIBRARY_PATH" not in program_variables(HELD, distrusted)


ROOT = Path(__file__).parents[3]
SECONDS = 30


def test_places_of_libraries_are_read_as_the_loader_reads_them() -> None:
    given = {
        "LD_LIBRARY_PATH": "/usr/lib;/work/lib;:/usr/local/$LIB:/work$ORIGIN/..:/usr/local/lib;",
        "PATH": "/a;/work",
    }
    found = program_variables(replace(SPEC, variables=given), program(distrusted=("/work",)))
    assert found["LD_LIBRARY_PATH"] == "/usr/lib:/usr/local/lib"
    assert found["PATH"] == "/a;/work"


PROGRAM = f"""
import ctypes, json, os, subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from engine.runtime.hardening import harden_process
harden_process()
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
os.environ["LATER"] = "set"
print(json.dumps({{
    "python": os.environ["A_KEY"],
    "c": [libc.getenv(name).decode() for name in (b"A_KEY", b"SSL_CERT_FILE", b"LATER")],
    "child": subprocess.run(["sh", "-c", "echo $A_KEY $SSL_CERT_FILE"], capture_output=True, text=True).stdout,
    "given": subprocess.run(["env"], env={{"B": "2"}}, capture_output=True, text=True).stdout,
    "dumpable": libc.prctl(3),
}}), flush=True)
sys.stdin.read()
"""


STARTING = f"""
import ctypes, json, os, subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from engine import Host, load_settings
host = Host(load_settings(os.environ), os.environ if sys.argv[1] == "own" else dict(os.environ))
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(json.dumps([
    os.environ["OPENAI_API_KEY"],
    subprocess.run(["env"], capture_output=True, text=True).stdout,
    (libc.getenv(b"OPENAI_API_KEY") or b"").decode(),
]))
"""


@pytest.mark.parametrize("whose", ["own", "copy"])
def test_programs_that_libraries_start_inherit_no_secrets(tmp_path: Path, whose: str) -> None:
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-planted", "PLAIN": "plain"}
    told = subprocess.run(
        [sys.executable, "-c", STARTING, whose], env=variables, stdout=subprocess.PIPE, check=True, timeout=SECONDS
    )
    python, inherited, c = json.loads(told.stdout)
    assert python == "sk-planted"
    assert "PLAIN=plain" in inherited
    assert ("sk-planted" in inherited, c) == ((False, "") if whose == "own" else (True, "sk-planted"))


def test_hardened_process_hides_its_environment() -> None:
    variables = {"PATH": os.environ["PATH"], "A_KEY": "planted-é-value", "SSL_CERT_FILE": "/certs.pem", "EMPTY": ""}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with program:
        said = json.loads(program.stdout.readline())
        # By root, who may read it whatever the process is.
        shown = Path(f"/proc/{program.pid}/environ").read_bytes() if os.geteuid() == 0 else b""
        program.stdin.close()
        assert program.wait(SECONDS) == 0
    assert said == {
        "python": "planted-é-value",
        "c": ["planted-é-value", "/certs.pem", "set"],
        "child": "planted-é-value /certs.pem\n",
        "given": "B=2\n",
        "dumpable": 0,
    }
    assert shown.strip(b"\0") == b""


READ = """
def read(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read(1) != b""
    except OSError as error:
        return type(error).__name__
"""

ORDINARY = """
import io, os, shutil, socket, subprocess, sys, tempfile
os.makedirs("one/two"); os.makedirs("three")
io.open("one/two/file", "w").write("text")
os.rename("one/two/file", "three/file")
os.link("three/file", "one/linked"); os.symlink("three/file", "pointer")
os.rename("one/two", "three/two")
shutil.move("three/file", tempfile.mkdtemp())
os.chdir("three"); os.chdir("..")
os.mkfifo("pipe"); os.chmod("pipe", 0o600)
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname())
near, far = socket.socketpair(); near.send(b"x"); far.recv(1)
local = socket.socket(socket.AF_UNIX); local.bind("socket"); local.listen()
socket.socket(socket.AF_UNIX).connect("socket")
child = subprocess.Popen(["sleep", "100"])
child_seen = read(child.pid, "maps")
child.send_signal(9); child.wait()
with open("/proc/self/maps") as maps: own = bool(maps.read())
moved = subprocess.run("mkdir a b && echo x > a/f && mv a/f b/f && cat b/f", shell=True, capture_output=True).stdout
[child_seen, own, moved, subprocess.run([sys.executable, "-c", "print(7 * 6)"], capture_output=True).stdout]
"""


async def test_ordinary_work_of_a_worker_goes_on_within_its_domain(b: WorkerBench) -> None:
    assert await b.value(READ + ORDINARY) == repr([True, True, b"x\n", b"42\n"])


async def test_worker_and_children_cannot_read_host_or_zygote(b: WorkerBench) -> None:
    pids = [shared_zygote().pid, os.getpid(), os.getppid()]
    assert await b.value(f"{READ}[read(pid, 'environ') for pid in {pids}]") == repr(["PermissionError"] * 3)
    tried = f"import subprocess\nsubprocess.run('cat /proc/{pids[0]}/environ /proc/{pids[1]}/environ', shell=True)"
    outcome = await b.run(f"{tried}.returncode")
    assert (outcome.value, outcome.stdout.text) == ("1", "")


async def test_the_memory_of_a_worker_is_readable_from_outside(b: WorkerBench) -> None:
    assert b.environment.pid is not None
    assert psutil.Process(b.environment.pid).memory_full_info().pss > 0


@pytest.mark.parametrize("user", ["root"] if os.geteuid() == 0 else [])
async def test_worker_of_root_has_lost_memory_reading_capabilities(b: WorkerBench, user: str) -> None:
    lost = 1 << 17 | 1 << 19 | 1 << 21 | 1 << 38
    status = (await b.run("import os\nos.system('cat /proc/self/status')")).stdout.text
    sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
    assert [int(sets[name], 16) & lost for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert int(sets["CapEff"], 16) & 1  # the others are as before
