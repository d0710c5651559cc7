SHELL := /bin/bash
.DEFAULT_GOAL := help

# the newest supported interpreter; PYTHON=... on the command line overrides it
PYTHON ?= $(shell for v in 3.12 3.11; do python$$v -c '' 2>/dev/null && echo python$$v && exit; done; echo python3)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 4
# the S3-like server of the tests: its requirements contradict ours
BUCKET := $(VENV)/bucket/.installed
# Node, from a wheel, and what builds the pages' scripts; nothing that is served needs them
WEB := $(VENV)/web/.installed
MODULES := web/node_modules/.installed
NPM := cd web && PATH="$(CURDIR)/$(VENV)/web/bin:$$PATH" npm
BUNDLE := service/web/static/dist
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := uv pip compile --quiet --universal --generate-hashes --only-binary :all: --python-version 3.11 --no-annotate \
	--custom-compile-command "make lock"

# the processes that tests start share what Python compiles, where the shell says not to keep it too
unexport PYTHONDONTWRITEBYTECODE
# scripts may load onnxruntime before anything of ours
export ORT_DISABLE_TELEMETRY := 1

.PHONY: help install demo serve test quick test-slow test-all test-long fingerprint mutants lint types imports format openapi examples secrets settings pictures web web-check lock bench bench-service clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 12); sys.exit(0 if ok else \
		f"Cyclops needs Python 3.11 or 3.12; {sys.executable} is {sys.version.split()[0]}. Name another with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.lock pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) --require-hashes --requirement requirements.lock
	$(PIP) --no-deps --editable .
	@touch $@

$(DEV): requirements-dev.lock $(RUN)
	$(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

$(BUCKET): requirements-bucket.lock $(DEV)
	$(BIN)/python -m venv $(VENV)/bucket
	$(VENV)/bucket/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

$(WEB): requirements-web.lock | $(RUN)
	$(BIN)/python -m venv $(VENV)/web
	$(VENV)/web/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

$(MODULES): web/package.json web/package-lock.json web/.npmrc $(WEB)
	$(NPM) ci
	@touch $@

install: $(RUN) ## make .venv with everything that running needs

demo: $(RUN) ## start the service, run ResNet-8 on VTA, show the layers, leave artifacts in out/demo; OPEN=1 keeps the pages open
	$(BIN)/cyclops demo --out out/demo $(if $(OPEN),--open)

serve: $(RUN) ## run the service with a worker and Redis until stopped
	$(BIN)/cyclops serve

test: lint imports $(BUCKET) ## lint, import rules, then types and the tests
	@$(MAKE) --no-print-directory --jobs 2 types quick # mypy has one process

# a file's tests share what they set up, and some files a service
quick: $(BUCKET)
	$(PYTEST) --dist loadgroup -m "not slow and not long and not all"

# one file takes more than its share of the time
test-slow: $(DEV) $(BUCKET) ## the tests that take seconds each
	$(PYTEST) --dist worksteal -m "slow and not long and not all"

test-all: lint types imports $(BUCKET) ## all tests but the long ones, also those that CI rotates; the fingerprint
	$(PYTEST) --hypothesis-profile all --dist worksteal -m "not long"
	$(BIN)/python -m tests.fingerprint check

test-long: $(DEV) ## campaigns that take several minutes each
	$(PYTEST) --hypothesis-profile all --dist worksteal -m long

fingerprint: $(DEV) ## compare words, cycles, reports and the API with those recorded in tests/fingerprint.json
	$(BIN)/python -m tests.fingerprint check

# each worker keeps a processor busy, and has its own copy of the tree
mutants: $(DEV) $(BUCKET) ## seed defects one at a time, and see that a test finds each
	$(BIN)/python -m tests.mutants --all

lint: $(DEV) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV) ## mypy --strict
	$(BIN)/mypy
	MYPYPATH=bench:. $(BIN)/mypy --explicit-package-bases $(wildcard bench/*.py bench/loading/*.py web/*.py)

imports: $(DEV) ## the direction of imports
	$(BIN)/lint-imports

format: $(DEV) ## rewrite the sources as the linter wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: $(RUN) ## export openapi/openapi.json
	$(BIN)/cyclops openapi > openapi/openapi.json

examples: $(RUN) ## make the example model, program and tensors anew, which changes their ids
	$(BIN)/python -m worker.examples

secrets: ## make the password that docker-compose.yml gives to Redis
	@mkdir -p -m 700 secrets
	@test -s secrets/redis_password || \
		python3 -c 'import secrets; print(secrets.token_hex(32))' > secrets/redis_password
	@chmod 444 secrets/redis_password # the containers' users are others; the folder keeps everybody else away

pictures: $(DEV) ## make the README's picture of a job's page, with Debian's chromium
	$(BIN)/python web/picture.py

settings: $(RUN) ## write docs/settings.md
	$(BIN)/python -m service.cli.settings_reference > docs/settings.md

web: $(MODULES) ## build the pages' scripts, whose bundle is part of the repository
	$(NPM) run --silent build

web-check: $(MODULES) ## build them elsewhere, and compare with the bundle
	@made=$$(mktemp --directory) && trap 'rm -r "$$made"' EXIT && \
		(umask 022 && $(NPM) run --silent build -- --logLevel warn --outDir "$$made") && \
		diff --recursive --brief "$$made" $(BUNDLE) || { echo "$(BUNDLE) is not what web/ makes: run make web"; exit 1; }

lock: $(DEV) ## choose the newest versions that pyproject.toml allows
	$(BIN)/$(LOCK) --upgrade pyproject.toml --output-file requirements.lock > /dev/null
	$(BIN)/$(LOCK) --extra dev --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock > /dev/null
	$(BIN)/$(LOCK) --upgrade --group bucket --output-file requirements-bucket.lock > /dev/null
	$(BIN)/$(LOCK) --upgrade --group web --output-file requirements-web.lock > /dev/null

bench: $(DEV) ## the benchmarks
	@for script in bench/*.py; do [ ! -e "$$script" ] || $(BIN)/python "$$script" || exit; done

bench-service: $(DEV) ## the service under load; PARTS="drain --jobs 1000" for one of its parts
	$(BIN)/python bench/load.py $(PARTS)

clean: ## remove what the other targets made
	rm -rf $(VENV) web/node_modules out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
