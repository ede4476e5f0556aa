# Rota. `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
PY := $(VENV)/bin/python
PYTHON ?= python3
ARGS ?=
N ?= 200

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: run
run: $(VENV)/.ready ## Start Rota alone on this machine and run the examples; ARGS="--for 20s --json" ends by itself
	@$(VENV)/bin/rota dev --examples examples $(ARGS)

.PHONY: dev
dev: $(VENV)/.ready ## Start Rota alone on this machine and leave the work to you
	@$(VENV)/bin/rota dev $(ARGS)

##@ Check
.PHONY: test
test: $(VENV)/.ready ## Run make check, end to end, the quick benchmark, and both PostgreSQL versions; SDKs of other languages: test-workers
	@scripts/test.sh

.PHONY: check
check: $(VENV)/.ready format-check lint types imports proto-check verify unit simulation store-suite ## All quick checks: format, lint, types, imports, buf, stubs, unit, simulation, store suite

.PHONY: format
format: $(VENV)/.ready ## Format the code
	@$(VENV)/bin/ruff format -q . && $(VENV)/bin/ruff check -q --fix --exit-zero . && $(VENV)/bin/buf format -w

.PHONY: format-check
format-check: $(VENV)/.ready
	@$(VENV)/bin/ruff format --check -q . && $(VENV)/bin/buf format -d --exit-code

.PHONY: lint
lint: $(VENV)/.ready ## Lint
	@$(VENV)/bin/ruff check -q .

.PHONY: types
types: $(VENV)/.ready ## Check the types, strictly
	@$(VENV)/bin/mypy

.PHONY: imports
imports: $(VENV)/.ready ## Check that imports point inward
	@PYTHONPATH=src:workers/python/src $(VENV)/bin/lint-imports --no-cache | tail -n 12

.PHONY: proto-check
proto-check: $(VENV)/.ready ## buf lint, and buf breaking against main
	@$(VENV)/bin/buf lint && PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/buf_breaking.sh

# Beside what they are about, and with a server process.
SERVED := tests/targets/test_runner.py tests/targets/test_http_runner.py tests/cli/test_schedule_real.py

# What tests of logs print holds lone surrogates, which do not pass between test processes.
.PHONY: unit
unit: $(VENV)/.ready ## Tests without a server process
	@$(PY) -m pytest -q -n 2 --dist loadfile tests/domain tests/manifest tests/cli tests/targets \
		tests/api/test_contract.py tests/test_clock.py tests/test_failures.py tests/telemetry workers/python/tests \
		--ignore=tests/telemetry/test_logs.py $(SERVED:%=--ignore=%)
	@$(PY) -m pytest -q tests/telemetry/test_logs.py

.PHONY: simulation
simulation: $(VENV)/.ready ## Seeded worlds of real coordinators over a simulated store, network and clock
	@$(PY) -m pytest -q -n 2 tests/sim

.PHONY: sim
sim: $(VENV)/.ready ## The same with more worlds: N=2000, or SEED=7 for one
	@$(PY) -m tests.sim --seeds $(if $(SEED),$(SEED),0..$(N))

.PHONY: sim-replay
sim-replay: $(VENV)/.ready ## The worlds that once broke a promise: tests/sim/seeds.txt
	@$(PY) -m tests.sim --replay

.PHONY: sim-mutants
# The rarest needs one world in a hundred, and none is to be missed by chance.
sim-mutants: N = 300
sim-mutants: $(VENV)/.ready ## Takes each guard away and hunts the loss over N=300 worlds: every mutant must be caught
	@$(PY) -m tests.sim --mutants --seeds 0..$(N)

.PHONY: store-suite
store-suite: $(VENV)/.ready ## Tests of store and services on a real PostgreSQL; ROTA_TEST_PG=15 for the oldest supported
	@$(PY) -m pytest -q -n 2 --dist loadfile tests/store tests/service tests/coordinator tests/outbox

# Side by side, since most of them wait for terms to end; the long ones first, which the quick ones then fill up.
.PHONY: e2e
e2e: $(VENV)/.ready ## Tests of whole processes: real coordinators and workers, kill -9
	@$(PY) -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder tests/e2e $(SERVED) tests/api

.PHONY: test-workers
test-workers: $(VENV)/.ready ## Run the conformance suite for the SDKs of every language: a matrix language × case; ARGS="--language python"
	@PYTHONPATH=workers/conformance $(PY) -m rota_conformance --checks $(ARGS)
	@PYTHONPATH=workers/conformance $(PY) -m rota_conformance --wrong
	@$(PY) -m pytest -q tests/fleet

.PHONY: chaos
chaos: $(VENV)/.ready ## Three coordinators, six workers and their databases, broken at random for ten minutes; ARGS="--minutes 60"
	@$(PY) -m tests.chaos $(ARGS)

##@ Make
.PHONY: gen
gen: $(VENV)/.ready ## Generate the stubs from proto/
	@$(PY) scripts/gen.py

.PHONY: verify
verify: $(VENV)/.ready ## Check that what is generated is fresh
	@$(PY) scripts/gen.py --check

.PHONY: lock
lock: $(VENV)/.ready ## Pin the newest versions that requirements/dev.in allows
	@$(VENV)/bin/uv pip compile -q --universal --upgrade --no-header --no-annotate --no-emit-package rota --no-emit-package rota-sdk requirements/dev.in -o requirements/dev.txt

.PHONY: bench
bench: $(VENV)/.ready ## Measure everything beside targets and the SQL floor: a table, JSON and a plot; ARGS="--only drain,idle"
	@bench/run standard $(ARGS)

.PHONY: bench-quick
bench-quick: $(VENV)/.ready ## Run every workload of the benchmark at a small size, without regard to times
	@bench/run quick

.PHONY: clean
clean: ## Remove the environment and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.ready: pyproject.toml workers/python/pyproject.toml requirements/dev.txt
	@scripts/venv.sh "$(PYTHON)" "$(VENV)"
	@touch $@
