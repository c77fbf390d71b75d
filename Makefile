# Every target sets up what it needs: a virtual environment in .venv, then the package with the extras in question.
# A stamp file per set of extras depends on pyproject.toml, so a second run installs nothing.
# The compiled kernels are cached next to their sources by the first run that needs them.

.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test lint format hooks torch bench experiments docs notebooks check-long check-oldest check-release clean distclean

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SUITES ?= exact messages calls bounds boltzmann.ais boltzmann.matrix_bp boltzmann.conditional learning.calls learning.truncated learning.image_pass learning.chunking learning.margin

# The versions of Python that the classifiers of pyproject.toml name, and the next.
RELEASED := 3.11 3.12 3.13 3.14

# The lower bounds have packages for this Python.
OLDEST := .venv-oldest
OLDEST_PYTHON ?= python3.11
OLDEST_TESTS := tests/unit/model tests/unit/io tests/contract/test_doors.py tests/contract/test_interpreted.py \
    tests/unit/inference/test_exact.py tests/unit/inference/test_bp.py tests/unit/learning/test_grid_crf.py \
    tests/unit/learning/test_graph_crf.py tests/unit/test_cli_process.py tests/unit/test_plot.py

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

test: lint  ## lint, types, unit tests, doctests, examples, one pass without the compiler
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
	$(BIN)/python experiments/mixture.py
	$(BIN)/python experiments/denoising.py
	$(BIN)/python experiments/pystruct_pages.py
	$(BIN)/python experiments/hidden_chain.py
	$(BIN)/python experiments/hidden_curves.py
	$(BIN)/python experiments/missing_labels.py
	$(BIN)/python experiments/street_patches.py

notebooks: $(VENV)/installed-docs  ## run the notebooks and store them with what they show
	$(BIN)/python docs/notebooks/execute.py

docs: $(VENV)/installed-docs  ## build the documentation: site/index.html
	$(BIN)/sphinx-build -W --keep-going -q -b html -d site/.doctrees docs site
	@echo "The documentation is $(abspath site/index.html)"

torch: $(VENV)/installed-torch  ## PyTorch for the CPU, for beliefs.torch and its tests

hooks: $(VENV)/installed-dev  ## let git run lint and types before each commit (asks for pre-commit)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

check-long: docs torch check-release check-oldest  ## what takes minutes: long tests, docs, the wheel, the oldest dependencies
	$(BIN)/python -m pytest -n $(WORKERS) -m long

# Kernels, questions, files, fits, pictures and the command with the lower bounds of pyproject.toml; deprecations that old
# releases meet in newer neighbours are not ours.
check-oldest: $(OLDEST)/installed  ## a part of the tests with the oldest supported dependencies
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	$(OLDEST)/bin/python -m pytest -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(OLDEST_TESTS)

# One wheel for all: what is asked of it is asked by every Python here; what is missing is said, not passed over.
check-release: $(VENV)/installed-dev  ## build wheel and source archive, ask every door in empty environments, by each Python
	rm -rf build/release
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir build/release . >/dev/null
	cp tests/installed.py build/release
	cd build/release && for version in $(RELEASED); do \
	    for python in python$$version $(HOME)/.pyenv/versions/$$version.*/bin/python ''; do \
	        test -n "$$python" && $$python -c '' 2>/dev/null && break; done; \
	    if test -z "$$python"; then echo "Python $$version: not found here, not tested"; continue; fi; \
	    $$python -m venv $$version && $$version/bin/python -m pip install --quiet --disable-pip-version-check *.whl \
	        && $$version/bin/python -W error installed.py && $$version/bin/beliefs infer asia --evidence xray=yes >/dev/null || exit 1; \
	    echo "Python $$version: every door answers"; done
	cd build/release && $(PYTHON) -m venv source && source/bin/python -m pip install --quiet --disable-pip-version-check *.tar.gz \
	    && source/bin/python -W error installed.py

clean:  ## remove what the targets above wrote, but not the environment
	rm -rf report site jupyter_execute build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean  ## also remove the environment and the compiled kernels
	rm -rf $(VENV) $(OLDEST)
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/installed-dev: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with 'make PYTHON=...'" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(OLDEST)/installed: pyproject.toml $(VENV)/installed-dev
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(BIN)/python tests/oldest.py >$(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(OLDEST)/requirements.txt
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# A build for the CPU; without a version one may be chosen that brings several GB for graphics processors.
$(VENV)/installed-torch: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	@touch $@

# The benchmark leaves out, with a note, a peer that cannot be installed here.
$(VENV)/installed-peers: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]' && touch $@ \
	    || echo "Not every peer could be installed; the benchmark says which are missing."
