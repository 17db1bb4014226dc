# What one types. `make` alone lists it.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo up test check chaos chaos-full screenshots mutants simulate lint types imports lock clean
SHELL := /bin/sh

PY := .venv/bin/python
UV := UV_PYTHON_DOWNLOADS=never .venv/bin/uv
HAVE_UV := .venv/bin/uv --version >/dev/null 2>&1
GET_UV := $(PY) -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
HOME_DIR := var
SEEDS := 0:10000
# Byte code on disk is what keeps the start of eight Python processes short.
unexport PYTHONDONTWRITEBYTECODE

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: say-demo setup ## set up, start everything, run a spike of 1,000 jobs, or of your file (CONFIG=my.yaml, ARGS=--exit)
	@$(PY) -m bench.demo $(if $(CONFIG),--config $(CONFIG)) $(ARGS)

up: say-up setup ## start everything and keep it running (ARGS="--config FILE --port N --home DIR")
	@exec $(PY) manage.py up $(ARGS)

test: say-test setup ## run the tests on servers of their own (T="tests/jobs -k name")
	@$(PY) -m pytest $(T)

check: say-check setup lint types imports ## all that CI runs: lint, types, layers, drift, tests
	@$(PY) -m pytest -n 3 --max-worker-restart 0 --no-loadscope-reorder --durations 20 $(T)

chaos: setup ## make faults under load, as many as MINUTES=14 allow, in the order that SEED=1 draws; then the referee
	@$(PY) -m tests.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),14) $(ARGS)

chaos-full: setup ## make all faults there are, with one group of workers and with three (an hour)
	@$(PY) -m tests.chaos --seed $(or $(SEED),1) --full $(ARGS)

screenshots: setup ## take the pictures of docs/screenshots anew (needs chromium)
	@BERTH_NEED_BROWSER=1 BERTH_SCREENSHOTS=docs/screenshots $(PY) -m pytest -q tests/pages

mutants: setup ## sow faults into the ledger, one after the other: the tests must find each (long)
	@$(PY) -m bench.ledger.mutants

simulate: setup ## ten thousand seeds of ourselves under faults, then every sown bug (SEEDS=0:10000; about an hour)
	@$(PY) -m tests.simulated --seeds $(SEEDS) --processes 2 && $(PY) -m tests.simulated --bugs

lint: setup ## ruff: rules and format
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

# DEBUG stands in for the keys that the settings ask for; nothing is served.
types: setup ## mypy, strict
	@DEBUG=1 $(PY) -m mypy

imports: setup ## import-linter: who may import whom
	@.venv/bin/lint-imports

setup: .venv/installed ## make .venv and install the locked packages (PYTHON= chooses the interpreter)

# pip is the way when uv cannot be had; both refuse a package whose hash is not in the lock.
.venv/installed: requirements.lock | .venv/bin/python
	@$(HAVE_UV) || $(GET_UV) || echo 'uv cannot be had: pip installs, which takes longer.'
	@if $(HAVE_UV); then \
	  $(UV) pip install --quiet --python $(PY) --compile-bytecode --require-hashes -r requirements.lock; \
	else $(PY) -m pip install --quiet --require-hashes -r requirements.lock; fi
	@touch $@

# A name on the PATH proves nothing (it may be a shim of a version that is not there), so each candidate is run.
.venv/bin/python:
	@for candidate in $(or $(PYTHON),python3.12 python3.13 python3.11 python3.14 python3); do \
	  if $$candidate -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Making .venv with $$($$candidate --version)"; exec $$candidate -m venv .venv; fi; done; \
	echo 'No Python 3.11 or newer with venv works here. Install one (Debian: python3-venv), or name one: make PYTHON=/path/to/python' >&2; exit 1

lock: .venv/bin/python ## write requirements.lock and requirements-image.lock anew from pyproject.toml
	@$(HAVE_UV) || $(GET_UV)
	@$(COMPILE) --group dev --group embedded -o requirements.lock
	@$(COMPILE) --constraint requirements.lock -o requirements-image.lock
	@! grep -n '://\|^-' requirements.lock requirements-image.lock || { echo 'A lock names an address: it would bind others to this machine.' >&2; exit 1; }

COMPILE = $(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet

clean: ## remove .venv, caches and all data under var/
	@if [ -e $(HOME_DIR)/up.lock ] && command -v flock >/dev/null && ! flock -n $(HOME_DIR)/up.lock true; then \
	  echo '`manage.py up` runs on $(HOME_DIR): stop it first.' >&2; exit 1; fi
	@if [ -L $(HOME_DIR)/postgres-nobody ]; then rm -rf "$$(readlink $(HOME_DIR)/postgres-nobody)"; fi
	rm -rf .venv $(HOME_DIR) .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The first line says what will happen and how long it takes, the first time with an installation of about a minute.
.PHONY: say-demo say-up say-test say-check
say-demo:
	@echo "The demo starts everything, runs $(SPIKE) and reports$(if $(CONFIG),,: about a minute)$(FIRST)."
say-up:
	@echo "Everything is started, in about 15 seconds$(FIRST)."
say-test:
	@echo "The tests run on servers of their own: a few minutes$(FIRST)."
say-check:
	@echo "Lint, types, layers, drift and tests: a few minutes$(FIRST)."
# What a file or an argument decides, the demo itself says once it has read it.
SPIKE = $(if $(CONFIG),the job types of $(CONFIG) on its sessions,$(if $(ARGS),a spike of jobs,1$(comma)000 jobs on 10 sessions))
FIRST = $(if $(wildcard .venv/installed),,; before that Python packages are installed into .venv$(comma) one to two minutes)
comma := ,
