# Everything runs from .venv, which `make setup` fills with the versions locked in constraints.txt.
#
#   PYTHON=...   the interpreter to try first when .venv is made (3.12 or later)
#   ARGS=...     passed on: make test ARGS="-k conv"
#   JOBS=...     test processes (0: all in one process, for a debugger)

SHELL  := /bin/sh
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
TORCH  := .venv-torch
PYTHON ?=
ARGS   ?=
JOBS   ?= 2

BENCHMARKS := $(filter-out benchmarks/_%,$(sort $(wildcard benchmarks/*.py)))
# What is checked in, whether or not it is there yet.
SOURCES    := $(wildcard glenside tests benchmarks tools)

# The interpreters that may be there, the tested version first. A name on PATH proves nothing (a
# pyenv shim fails unless its version is active), so each is run before it is taken.
CANDIDATES = $(PYTHON) python3.12 python3.13 python3.14 python3 python \
	"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python
USABLE     = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup venv test test-torch setup-torch lint format typecheck docs demo bench lock clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Make .venv and install Glenside and its tools into it
	@:

test: $(STAMP) ## Run the tests (ARGS, JOBS)
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# PyTorch's wheel for Linux brings CUDA's libraries, some 5 GB: it has an environment of its own.
setup-torch: $(TORCH)/.installed ## Make .venv-torch, with PyTorch and its model libraries
	@:

test-torch: $(TORCH)/.installed ## Run the tests of the PyTorch front end and backend (ARGS, JOBS)
	$(TORCH)/bin/python -m pytest -n $(JOBS) --dist worksteal \
		tests/frontends/torch tests/test_torch_compile.py \
		tests/test_examples.py::test_a_pytorch_module_runs_on_a_target_of_the_users_choice $(ARGS)

lint: $(STAMP) ## Check style and formatting
	$(PY) -m ruff check $(ARGS)
	$(PY) -m ruff format --check $(ARGS)

format: $(STAMP) ## Rewrite the sources in the house style
	$(PY) -m ruff check --fix-only $(ARGS)
	$(PY) -m ruff format $(ARGS)

typecheck: $(STAMP) ## Check the types
	$(PY) -m mypy $(ARGS)

docs: $(VENV)/.docs ## Build the documentation's site in build/site, links and examples checked
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(PY) -m mkdocs build --quiet $(ARGS)

demo: $(STAMP) ## Optimise SqueezeNet for a systolic array and the CPU, run it, check the answer
	$(PY) -m glenside.demo $(ARGS)

bench: $(STAMP) ## Run every benchmark
	@set -e; for benchmark in $(BENCHMARKS); do \
		echo "== $$benchmark"; $(PY) "$$benchmark" $(ARGS); \
	done

lock: venv ## Resolve the newest versions and write them to constraints.txt
	$(PY) tools/lock.py

clean: ## Remove caches and build products
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv as well
	rm -rf $(VENV) $(TORCH)

# Installed again when what is asked for changes, or when .venv is gone or no longer runs.
$(STAMP): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory venv
	@echo "installing Glenside and its tools into $(VENV)"
	@$(PY) -m pip install -qq -c constraints.txt -e ".[dev]"
	@touch $@

$(TORCH)/.installed: $(STAMP)
	@echo "installing Glenside and PyTorch into $(TORCH)"
	@$(PY) -m venv --clear $(TORCH)
	@$(TORCH)/bin/python -m pip install -qq -c constraints.txt -e ".[test,torch]" \
		torchvision timm transformers
	@touch $@

$(VENV)/.docs: $(STAMP)
	@$(PY) -m pip install -qq -c constraints.txt -e ".[docs]"
	@touch $@

venv:
	@if $(PY) -c '$(USABLE)' >/dev/null 2>&1 && $(PY) -m pip --version >/dev/null 2>&1; then exit 0; fi; \
	for candidate in $(CANDIDATES); do \
		if "$$candidate" -c '$(USABLE)' >/dev/null 2>&1; then \
			echo "making $(VENV) with $$("$$candidate" --version) ($$candidate)"; \
			exec "$$candidate" -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "glenside needs Python 3.12 or later with venv: none found; say where with make PYTHON=/path/to/python" >&2; \
	exit 1
