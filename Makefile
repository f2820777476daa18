# `make` shows what there is. Needs only make and Python 3.11 or later.

PYTHON ?= python3
WORKERS ?= 2
FUZZ ?= 20
TORCH ?= torch
BIN := .venv/bin
NEWEST := .venv-newest
INSTALL := -m pip --quiet --quiet --disable-pip-version-check install
PIP := $(BIN)/python $(INSTALL) -c constraints.txt
TESTS := -m pytest -n $(WORKERS)
PYTEST := $(BIN)/python $(TESTS)

export OMP_NUM_THREADS ?= 1
ifndef TORCHNPN_DATA
ifneq ($(wildcard ../shared/data),)
export TORCHNPN_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-newest fuzz lint bench docs release-check clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo ## a first look: three small studies, figures and a report in npn-demo/, in half a minute
	@$(BIN)/npn demo

test: lint ## all that CI runs: lint, types, tests, doctests, pages
	@$(PYTEST)

test-fast: .venv/.installed ## the tests without the slow ones, under three minutes
	@$(PYTEST) -m "not slow"

test-newest: ## all tests with the newest torch, pandas and others, in .venv-newest; TORCH=torch==2.13.0 keeps that torch
	@test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	@echo "Installing the newest versions into $(NEWEST) ..."
	@$(NEWEST)/bin/python $(INSTALL) --upgrade --upgrade-strategy eager "$(TORCH)" -e ".[test]" -e ./studies -e ./runtime polars
	@$(NEWEST)/bin/python -c 'from importlib.metadata import version as v; print(*(f"{n} {v(n)}" for n in "torch pandas numpy scipy scikit-learn matplotlib pyarrow".split()), sep=", ")'
	@$(NEWEST)/bin/python $(TESTS)

fuzz: .venv/.installed ## the fuzz tests with FUZZ (20) times as many random inputs; about an hour
	@TORCHNPN_FUZZ=$(FUZZ) $(PYTEST) tests/fuzz

lint: .venv/.installed ## style, format and types
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary

bench: .venv/.installed ## what networks cost beside plain ones (npn bench, docs/speed.md), and each map beside torch's own function
	@$(BIN)/python benchmarks/step.py
	@$(BIN)/python benchmarks/maps.py

release-check: .venv/bin/python ## build all packages into dist/, install each with the lowest and the newest versions, use them; LOWEST_TORCH=torch==2.11.0 NEWEST_TORCH=torch
	@$(BIN)/python release/check.py $(if $(LOWEST_TORCH),--lowest-torch $(LOWEST_TORCH)) $(if $(NEWEST_TORCH),--newest-torch $(NEWEST_TORCH)) $(if $(RECORD),--record)

docs: .venv/.docs ## the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict
	@echo "site/index.html"

clean: ## remove the environments, caches and build outputs
	@rm -rf .venv $(NEWEST) build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Needs Python 3.11 or later; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml studies/pyproject.toml runtime/pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing torchnpn and its tools into .venv ..."
	@$(PIP) -e ".[dev]" -e ./studies -e ./runtime
	@touch $@ .venv/.demo

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing torchnpn into .venv ..."
	@$(PIP) -e ".[cli]"
	@touch $@

.venv/.docs: docs/requirements.txt | .venv/bin/python
	@$(PIP) -r docs/requirements.txt
	@touch $@
