# `make up` runs a broker, `make test` runs every test, `make check` the fast ones; each installs what it needs first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install up check test format clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev --group clients --editable .
	touch $@

up: install
	$(BIN)/tailrace up

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto

test: check
	$(BIN)/pytest compat_tests

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
