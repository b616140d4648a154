# `make demo` and `make test` set everything up on a machine that has Python 3.11 or newer; see scripts/setup.sh.
BIN := .venv/bin
READY := .venv/.ready
DEMO ?= auction
DEMO_SECONDS ?= 60
PYTEST := $(BIN)/python -m pytest -q

.PHONY: help setup demo test check format lint types imports unused fast spark crash bench clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | expand -t 12

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

setup: $(READY)  ## environment, pinned dependencies, Java

demo: $(READY)  ## run an example for a minute (DEMO=auction DEMO_SECONDS=60)
	@$(BIN)/penstock demo $(DEMO) --seconds $(DEMO_SECONDS)

test: lint types imports unused  ## everything: style, types, imports, names nobody uses, all tests
	$(PYTEST) -n 2 -m "not spark and not crash"
	$(PYTEST) -n 2 --dist loadfile -m "spark or crash"

check: lint types imports unused fast  ## what must hold before every commit; needs no Java

format: $(READY)  ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

unused: $(READY)  ## names that nothing but tests uses
	$(BIN)/python scripts/unused_names.py

fast: $(READY)  ## tests and examples in docstrings, without Spark
	$(PYTEST) -n 2 -m "not spark and not crash and not slow"

spark: $(READY)  ## tests on Spark
	$(PYTEST) -n 2 --dist loadfile -m "spark and not crash"

crash: $(READY)  ## tests that kill processes
	$(PYTEST) -n 2 --dist loadfile -m crash

bench: $(READY)  ## benchmarks; results are added to benchmarks/RESULTS.md
	@for module in $$(ls benchmarks/[a-z]*.py | grep -v common); do \
		name=$$(basename $$module .py); \
		$(BIN)/python -m benchmarks.$$name || exit 1; \
	done

clean:  ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
