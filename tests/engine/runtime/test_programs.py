"""Environment variables of workers and programs."""

from __future__ import annotations

from msgspec.structs import replace

from engine.core.domain import Domain
from engine.core.programs import CommandRequest
from engine.log.redaction import NO_SECRETS
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.programs import program_variables, worker_variables

VARIABLES = {"PATH": "/usr/bin:.:/work/bin:bin:/state/scratch/s/x::/usr/local/bin", "TMPDIR": "/tmp/mine", "ENV": "/x"}
SPEC = EnvironmentSpec(cwd="/work", redactor=NO_SECRETS, variables=VARIABLES)
HELD = EnvironmentSpec(cwd="/work", redactor=NO_SECRETS, variables=VARIABLES, domain=Domain(scratch="/state/scratch/s"))


def request(*, domain: Domain | None = None, distrusted: tuple[str, ...] = ()) -> CommandRequest:
    return CommandRequest(argv=("/bin/true",), cwd="/", seconds=1, kept_bytes=1, domain=domain, distrusted=distrusted)


def test_a_worker_without_a_domain_has_the_variables_as_they_are() -> None:
    assert worker_variables(SPEC) == VARIABLES


def test_a_worker_in_a_domain_keeps_temporary_files_and_caches_in_scratch() -> None:
    changed = {name: value for name, value in worker_variables(HELD).items() if VARIABLES.get(name) != value}
    assert changed.pop("PYTEST_ADDOPTS") == "-o cache_dir=/state/scratch/s/pytest"
    assert all(value == "/state/scratch/s" or value.startswith("/state/scratch/s/") for value in changed.values())
    assert {"TMPDIR", "PYTHONPYCACHEPREFIX", "XDG_CACHE_HOME", "MPLCONFIGDIR"} <= changed.keys()


def test_options_of_pytest_stay_those_of_the_user() -> None:
    given = replace(HELD, variables={"PYTEST_ADDOPTS": "-x -q"}, domain=Domain(scratch="/state/a b"))
    assert worker_variables(given)["PYTEST_ADDOPTS"] == "-x -q -o 'cache_dir=/state/a b/pytest'"


def test_a_program_that_is_confined_has_those_of_the_worker_and_another_one_has_not() -> None:
    assert program_variables(HELD, request(domain=HELD.domain))["TMPDIR"] == "/state/scratch/s"
    assert program_variables(HELD, request())["TMPDIR"] == "/tmp/mine"
    assert not {"PYTHONPYCACHEPREFIX", "XDG_CACHE_HOME", "ENV"} & program_variables(HELD, request()).keys()


def test_a_program_outside_is_found_nowhere_where_a_statement_may_have_left_it() -> None:
    found = program_variables(HELD, request(distrusted=("/state/scratch/s", "/work")))["PATH"]
    assert found == "/usr/bin:/usr/local/bin"
    assert program_variables(SPEC, request())["PATH"] == VARIABLES["PATH"]
