# Everything runs in .venv, made on first use; PYTHON chooses its interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
# Named in the same command as the project, so that pip never resolves another build of it.
TORCH := $(shell grep '^torch==' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench docs dist clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.installed  ## decide a bundled property on a bundled network
	$(BIN)/anybound demo

test: $(VENV)/.installed  ## run all tests; PYTEST_ARGS="-k word" selects
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PYTEST_ARGS)

check: $(VENV)/.installed  ## formatting, lint and strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed  ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed  ## short benchmarks; full ones: see benchmarks/
ifneq ($(wildcard benchmarks/run.py),)
	$(BIN)/python benchmarks/run.py --short
else
	@echo "there are no benchmarks in this checkout" >&2; exit 1
endif

docs: $(VENV)/.installed-docs  ## build the documentation into build/site, without network access
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/site

dist: $(VENV)/.installed  ## build a wheel and a source archive into dist/
	$(PIP) build
	$(BIN)/python -m build --outdir dist .

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) anybound-demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "anybound needs Python 3.11 or newer, got " \
	  + sys.version.split()[0] + "; choose one: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) "$(TORCH)" -e ".[dev]"
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) "$(TORCH)" -e ".[docs]"
	@touch $@
