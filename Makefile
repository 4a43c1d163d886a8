# The same commands for people and for CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
WORKERS ?= 2
ORACLE_NODE := tests/oracle/node
NODE_STAMPS := $(patsubst %,$(ORACLE_NODE)/phoenix-%/node_modules/.installed,1.8.4 1.8.16)
MCP_NODE := tests/integration/mcp/node
ORACLE_USERS ?= 50
CLIENT_STAMP := client-js/node_modules/.installed
CLIENT_DIST := client-js/dist/index.js
PUBLISHED_STAMP := client-js/test/published/node_modules/.installed
CONSOLE := client-js/console/dist/index.html

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
test: $(DEV_STAMP) oracle-setup pgbouncer-setup $(MCP_NODE)/node_modules/.installed $(CLIENT_STAMP) chromium ## Run every test against real servers.
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)
	$(MAKE) --silent test-client

.PHONY: test-client
test-client: $(RUN_STAMP) $(CLIENT_STAMP) $(CONSOLE) chromium ## Run the JavaScript client's tests: types, size, a real server, a real browser.
	cd client-js && npm run check --silent && npm run size --silent && npm test --silent
	cd client-js && npx tsc --noEmit -p console/tsconfig.json

.PHONY: test-published
test-published: $(RUN_STAMP) $(CLIENT_STAMP) $(PUBLISHED_STAMP) chromium ## Run the published CopilotKit hook and a Next.js app on Memlane, in a browser.
	cd client-js && npm run test:published --silent

.PHONY: screenshots
screenshots: $(RUN_STAMP) $(CLIENT_STAMP) $(CONSOLE) chromium ## Take a picture of each state of the console, wide and narrow, light and dark.
	@cd client-js && npm run build --silent && npx vitest run --config vitest.screenshots.config.ts --silent
	@echo "They are in client-js/.build/screenshots."

.PHONY: oracle
oracle: $(DEV_STAMP) oracle-setup ## Let 50 published clients converge under faults. ORACLE_USERS, ORACLE_SEED and ORACLE_ROUNDS change it.
	@ORACLE_USERS=$(ORACLE_USERS) $(BIN)/pytest -q -s tests/oracle/test_convergence.py $(ARGS)

.PHONY: oracle-setup
oracle-setup: $(NODE_STAMPS) $(CLIENT_DIST) redis-setup # The published clients, our own, and redis-server.

.PHONY: redis-setup
redis-setup:
	@$(call from-apt,redis-server,the stream's tests,macOS: brew install redis)

.PHONY: pgbouncer-setup
pgbouncer-setup:
	@$(call from-apt,pgbouncer,the tests behind a pooler,macOS: brew install pgbouncer)

.PHONY: chromium
chromium: # The browser of the tests; CHROMIUM names another one.
	@test -n "$$CHROMIUM" || { $(call from-apt,chromium,the browser's tests,elsewhere: CHROMIUM=/path/to/chrome make ...); }

# A program that apt has under its own name: $(1) is missing for $(2); $(3) says what to do where there is no apt.
# Debian keeps some in /usr/sbin, where only root looks.
define from-apt
PATH="$$PATH:/usr/sbin"; command -v $(1) >/dev/null || { \
	  echo "Installing $(1), which $(2) need…"; \
	  if [ "$$(id -u)" = 0 ]; then root=; else root="sudo -n"; fi; \
	  command -v apt-get >/dev/null && $$root true 2>/dev/null && \
	    $$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) >/dev/null; \
	  command -v $(1) >/dev/null || \
	    { echo "$(1) is missing: sudo apt-get install $(1) ($(3))"; exit 1; }; }
endef

$(ORACLE_NODE)/%/node_modules/.installed: $(ORACLE_NODE)/%/package-lock.json
	@command -v npm >/dev/null && node -e 'process.exit(+(parseInt(process.versions.node) < 20))' || \
	  { echo "Node 20 or later with npm is needed: https://nodejs.org, or 'nvm install 20'"; exit 1; }
	@echo "Installing the published clients with $* (half a minute, once)…"
	@cd $(ORACLE_NODE)/$* && npm ci --silent
	@touch $@

$(MCP_NODE)/node_modules/.installed: $(MCP_NODE)/package-lock.json
	@command -v npm >/dev/null && node -e 'process.exit(+(parseInt(process.versions.node) < 20))' || \
	  { echo "Node 20 or later with npm is needed: https://nodejs.org, or 'nvm install 20'"; exit 1; }
	@echo "Installing the published MCP middleware (half a minute, once)…"
	@cd $(MCP_NODE) && npm ci --silent
	@touch $@

.PHONY: chart-docs
chart-docs: $(DEV_STAMP) ## Make the table of values in the chart's README anew.
	@cd tests && ../$(BIN)/python -m chart.value_table

.PHONY: soak
soak: $(DEV_STAMP) redis-setup ## Ten minutes of load while every process is killed and upgraded. ARGS="--minutes 2" shortens it.
	@cd tests && ../$(BIN)/python -m soak.run $(ARGS)

IMAGE ?= memlane:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' server/memlane/__init__.py)
.PHONY: image
image: ## Build the image with podman or docker. IMAGE=registry.example.com/memlane:0.1.0 names it.
	@engine=$$(command -v podman || command -v docker) || { echo "podman or docker is needed"; exit 1; }; \
	  $$engine build --file Containerfile --tag $(IMAGE) .

.PHONY: bench
bench: $(DEV_STAMP) ## Measure save, recall and list beside their floor.
	$(BIN)/memlane bench $(ARGS)

RECALL_DATA ?= ../shared/data/recall

.PHONY: bench-recall
bench-recall: $(DEV_STAMP) ## Measure how well recall finds, beside other rankings. RECALL_DATA names a folder of labelled questions.
	$(BIN)/memlane bench-recall --data $(RECALL_DATA) --data tests/data/recall $(ARGS)

.PHONY: bench-scale
bench-scale: $(DEV_STAMP) ## Measure recall on a project channel of 200,000 memories beside one of 2,000.
	$(BIN)/memlane bench-scale $(ARGS)

.PHONY: bench-stream
bench-stream: $(DEV_STAMP) ## Measure the stream: fan-out beside a bare broadcast, latency, memory, a stalled reader.
	$(BIN)/memlane bench-stream $(ARGS)

$(CLIENT_STAMP): client-js/package-lock.json
	@node -e 'process.exit(+(parseInt(process.versions.node) < 20))' 2>/dev/null && command -v npm >/dev/null || \
	  { echo "Node 20 or later with npm is needed: https://nodejs.org, or 'nvm install 20'"; exit 1; }
	@echo "Installing the JavaScript client's tools (half a minute, once)…"
	@cd client-js && npm ci --silent --no-audit --no-fund
	@touch $@

$(CLIENT_DIST): $(CLIENT_STAMP) $(wildcard client-js/src/*.ts)
	@cd client-js && npm run build --silent

$(PUBLISHED_STAMP): client-js/test/published/package-lock.json $(CLIENT_STAMP)
	@echo "Installing the published CopilotKit and Next.js packages (a minute, once)…"
	@cd client-js/test/published && npm ci --silent
	@touch $@

$(CONSOLE): $(CLIENT_STAMP) $(wildcard client-js/src/*.ts client-js/console/src/* client-js/console/*.ts client-js/console/index.html)
	@echo "Building the console…"
	@cd client-js && npx vite build console --logLevel error

.PHONY: console
console: $(CONSOLE) ## Build the page that `make dev` serves at /.
