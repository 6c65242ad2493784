# Every target sets up what it needs: a virtual environment in .venv from requirements.lock, checked by hash.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: try test test-sandbox test-vllm test-engine engine lint install lock clean help

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(READY) ## the virtual environment alone

$(READY): requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version 2>&1). make PYTHON=python3.12 names another one."; exit 2; }
	@echo "installing into $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-uv.lock
	@UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements.lock
	@UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

try: $(READY) ## the tour on a simulated cloud: up, wake, hibernate; about a minute
	@$(BIN)/dormouse sandbox try

test: $(READY) ## the fast tests
	@$(BIN)/python -m pytest -m "not engine and not sandbox and not vllm" -n 3 --dist loadscope

test-sandbox: $(READY) ## whole days on the simulated cloud, each in a process of its own
	@$(BIN)/python -m pytest -m sandbox -n 2

test-vllm: $(READY) ## what talks to vLLM, against a real one on CPU (installs it once; needs gcc)
	@$(BIN)/python vllm_cpu/build.py
	@DORMOUSE_REQUIRE_VLLM=1 $(BIN)/python -m pytest -m vllm tests/vllm

engine: $(READY) ## build Pulumi's engine and a Kubernetes control plane for the tests, once (needs Go)
	@$(PYTHON) engine/build.py

test-engine: engine ## the tests on Pulumi's own engine and a real control plane
	@DORMOUSE_REQUIRE_ENGINE=1 $(BIN)/python -m pytest -m engine tests/engine

lint: $(READY) ## ruff and the strict type checker
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright

lock: $(READY) ## resolve requirements.lock anew
	@$(BIN)/uv pip compile --quiet --universal pyproject.toml --extra sandbox --extra dev --generate-hashes --no-emit-index-url --no-header -o requirements.lock
	@printf 'uv==%s\n' "$$($(BIN)/uv --version | cut -d' ' -f2)" | $(BIN)/uv pip compile --quiet - --generate-hashes --no-emit-index-url --no-header -o requirements-uv.lock

clean: ## remove the virtual environment and caches
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .dormouse
