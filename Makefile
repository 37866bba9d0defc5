# Everything a developer or CI runs. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test check soak lock clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

setup: $(STAMP)  ## create .venv from requirements.lock, with .venv/bin/braidcast

# The environment is made anew whenever the lock changes, so it holds what the lock says and nothing else.
# The build backend is in the lock too, and what builds pyspark, which comes as source: without build isolation
# nothing is installed that has no hash.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    || { echo "braidcast needs Python 3.11 or newer with the venv module: say make PYTHON=python3.11 (or newer)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@awk '/^setuptools==/ { on = 1 } on { print } on && !/\\$$/ { exit }' requirements.lock > $(VENV)/sources.txt
	$(PIP) install --quiet --require-hashes -r $(VENV)/sources.txt
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

demo: setup  ## run the demonstration
	$(BIN)/braidcast demo

test: setup  ## run the tests
	$(BIN)/python -m pytest

check: setup  ## lint, types, and the arrows of import
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Not in CI: many random runs with faults, then the tests that are too long for `make test`.
# The seed is fixed, so that a failure is the same failure the next time; try others by hand.
# tests.fuzz leaves with 3 where there is no atheris, which is no failure.
# pytest leaves with 5 when it finds no soak test, which is not a failure of the runs before it.
soak: setup  ## long: 20,000 fuzzed runs of whitebox, fuzzed frames, then the tests marked soak
	$(BIN)/braidcast fuzz --protocol whitebox --runs 20000 --seed 1
	$(BIN)/python -m tests.fuzz --seconds 300 || [ $$? -eq 3 ]
	$(BIN)/python -m tests.fuzz --live --seconds 300
	$(BIN)/python -m pytest -m soak || [ $$? -eq 5 ]

# Every version pinned, for every platform and every Python from 3.11 on, with the hashes of every file of each
# release. Versions that still fit are kept; `make lock UPGRADE=--upgrade` takes the newest.
# The tool goes into an environment of its own, thrown away after, and reads no configuration file.
UPGRADE ?=
lock:  ## write requirements.lock anew from pyproject.toml
	@tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT \
	    && $(PYTHON) -m venv "$$tool" \
	    && "$$tool/bin/python" -m pip --disable-pip-version-check install --quiet uv \
	    && "$$tool/bin/uv" --no-config pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	        --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(UPGRADE) \
	        --extra spark --group build --group sources --group dev --group fuzz \
	        --output-file requirements.lock pyproject.toml

clean:  ## remove .venv and what the tools leave behind
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
