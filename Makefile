# What one needs is make and Python 3.10 or newer; everything else goes into .venv.
#
#   make demo    install, and run the demonstration
#   make test    the whole test suite, with the examples in the docstrings
#   make check   lint, types and tests: what the continuous integration runs
#   make docs    the site, in docs/_build/index.html
#   make bench   measurements of speed and success; minutes
#   make package-check   build, install without extras into a new environment, and look there
#   make clean   remove what these made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that run tests. Each computes with one thread: the matrices are small.
WORKERS ?= 2

export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# The tests start many programs, and each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=
ifndef GRADAUDIT_DATA
ifneq ($(wildcard ../shared/data),)
export GRADAUDIT_DATA := ../shared/data
endif
endif

# setuptools comes first, pinned, and builds without isolation: pip's own build environment would
# fetch whichever release is the newest.
INSTALL = $(BIN)/python -m pip install -qq -c constraints.txt
SPECIFIED_BY := pyproject.toml constraints.txt

# Files whose name starts with an underscore are what the others share; packaging has its own target.
BENCHMARKS := $(sort $(filter-out benchmarks/_% benchmarks/package.py,$(wildcard benchmarks/*.py)))

.PHONY: help demo test check lint types docs bench package-check clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/installed-all
	$(BIN)/gradaudit demo --out demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

check: lint types test

docs: $(VENV)/installed-dev
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs docs/_build

bench: $(VENV)/installed-dev
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

package-check: $(VENV)/installed-dev
	$(BIN)/python benchmarks/package.py

clean:
	rm -rf $(VENV) demo build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

# Installing a larger set keeps the smaller one's stamp valid, and the other way round.
$(VENV)/installed-all $(VENV)/installed-dev: $(VENV)/installed-%: $(SPECIFIED_BY) | $(BIN)/python
	@echo "Installing gradaudit[$*] into $(VENV); torch is large, so that this takes a minute or more"
	@$(INSTALL) setuptools
	@$(INSTALL) --no-build-isolation -e ".[$*]"
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "gradaudit needs Python 3.10 or newer; found no $(PYTHON): pass PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "gradaudit needs Python 3.10 or newer; found $$($(PYTHON) --version 2>&1): pass PYTHON=..." >&2; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; \
	  exit 1; }
