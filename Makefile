# The same commands for people and for CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
WORKERS ?= 2

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or later is needed: sudo apt-get install python3 python3-venv (or PYTHON=python3.12 make ...)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python's venv is missing: sudo apt-get install python3-venv"; exit 1; }

$(RUN_STAMP): $(VENV)/bin/python pyproject.toml
	@echo "Installing Memlane into $(VENV) (about a minute, once)…"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_STAMP): $(VENV)/bin/python pyproject.toml
	@echo "Installing Memlane and its test tools into $(VENV) (about a minute, once)…"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(RUN_STAMP)

.PHONY: setup
setup: $(DEV_STAMP) ## Install everything that the other commands need.

.PHONY: dev
dev: $(RUN_STAMP) ## Run the product here: Postgres, embedder, API on one port. ARGS="--port 4300" changes it.
	@$(MAKE) --silent console || echo "Going on without the console."
	@exec $(BIN)/memlane dev $(ARGS)

.PHONY: check
check: $(DEV_STAMP) ## Format, lint, types and import rules.
	$(BIN)/ruff format --check server tests
	$(BIN)/ruff check server tests
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(DEV_STAMP) ## Rewrite the code in the house's format.
	$(BIN)/ruff format server tests
	$(BIN)/ruff check --fix server tests

.PHONY: test
test: $(DEV_STAMP) ## Run every test against real servers.
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

.PHONY: bench
bench: $(DEV_STAMP) ## Measure save, recall and list beside their floor.
	$(BIN)/memlane bench $(ARGS)

CONSOLE := client-js/console/dist/index.html

$(CONSOLE): $(wildcard client-js/src/*.ts client-js/console/src/* client-js/console/*.ts client-js/console/index.html client-js/package-lock.json)
	@node -e 'process.exit(process.versions.node.split(".")[0] < 20)' 2>/dev/null || \
	  { echo "Node 20 or later is needed: sudo apt-get install nodejs npm"; exit 1; }
	@echo "Building the console…"
	@cd client-js && npm ci --silent --no-audit --no-fund && npx vite build console --logLevel error

.PHONY: console
console: $(CONSOLE) ## Build the page that `make dev` serves at /.
