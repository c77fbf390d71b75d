# Every target sets up what it needs: a virtual environment in .venv, then the package with the extras in question.
# A stamp file per set of extras depends on pyproject.toml, so a second run installs nothing.
# The compiled kernels are cached next to their sources by the first run that needs them.

.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench experiments docs check-long clean distclean

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SUITES ?= exact messages calls bounds learning.calls learning.truncated learning.image_pass learning.chunking

# The first Python that is new enough; asked only when the environment is made. `make PYTHON=...` chooses another.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

# Larger data sets are read where they lie; tests that need them are skipped without them.
ifneq ($(wildcard ../shared/data),)
BELIEFS_DATA ?= $(abspath ../shared/data)
export BELIEFS_DATA
endif

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/installed-dev  ## draw the report: report/index.html
	$(BIN)/python -m beliefs.report --output report/index.html
	@echo "The report is $(abspath report/index.html)"

test: lint  ## lint, types, unit tests, doctests
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/installed-dev  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-peers  ## measure ours beside the peers'
	for suite in $(SUITES); do $(BIN)/python -m benchmarks.$$suite || exit 1; done

experiments: $(VENV)/installed-dev  ## draw the papers' figures again
	$(BIN)/python experiments/ising_bounds.py
	$(BIN)/python experiments/diagnostic_networks.py
	$(BIN)/python experiments/pedigree_bounds.py
	$(BIN)/python experiments/misspecified_chain.py
	$(BIN)/python experiments/perturbation_step.py
	$(BIN)/python experiments/denoising.py

docs: $(VENV)/installed-docs  ## build the documentation: site/index.html
	rm -rf docs/generated
	$(BIN)/sphinx-build -W --keep-going -q -b html -d site/.doctrees docs site
	@echo "The documentation is $(abspath site/index.html)"

check-long: $(VENV)/installed-dev  ## the tests that take minutes
	$(BIN)/python -m pytest -n $(WORKERS) -m long

clean:  ## remove what the targets above wrote, but not the environment
	rm -rf report site docs/generated build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean  ## also remove the environment and the compiled kernels
	rm -rf $(VENV)
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/installed-dev: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with 'make PYTHON=...'" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# The benchmark leaves out, with a note, a peer that cannot be installed here.
$(VENV)/installed-peers: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]' && touch $@ \
	    || echo "Not every peer could be installed; the benchmark says which are missing."
