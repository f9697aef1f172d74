# `make test` is all that a change must pass; every target makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DELETE_ON_ERROR:
.PHONY: demo test check static cover bench mutants clean

demo: $(VENV)/.demo
	$(BIN)/session-vault demo

test: static
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: static
	$(BIN)/python -m pytest -q tests/architecture

static: $(VENV)/.dev
	$(BIN)/python -m ruff check --quiet
	$(BIN)/python -m ruff format --check --quiet
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo

cover: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov --cov-report=term

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants.py

clean:
	rm -rf $(VENV) build dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A half-made environment is made anew; a failed install leaves no stamp, so it is tried again.
$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench: pyproject.toml constraints.txt
	@rm -f $@
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PIP_INSTALL) -e '.$(EXTRA)'
	@touch $@
$(VENV)/.dev: EXTRA := [dev]
$(VENV)/.bench: EXTRA := [bench]
