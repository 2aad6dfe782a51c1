# `make demo` and `make test` are all a fresh machine needs. `make check` is what CI runs.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
UV := $(BIN)/python -m uv

.PHONY: demo test test-python test-wheel test-all test-vllm test-clients test-trl train-example check site names docs viewer viewer-check pictures lock clean help

help:
	@echo "make demo      install, and score the embedded model on real tasks"
	@echo "make test      install, and run the tests (the quick ones)"
	@echo "make test-python PYTHON=python3.13  the quick ones, on that Python"
	@echo "make test-wheel PYTHON=python3.13  the same against the built wheel, with no src about"
	@echo "make test-all  all tests, with real processes and the real local model"
	@echo "make test-vllm tests with a real vLLM, which is installed first (2.6 GB)"
	@echo "make test-clients  tests with LiteLLM, which is installed apart first"
	@echo "make test-trl  train a tiny model with TRL, which is installed apart first (1.4 GB)"
	@echo "make train-example  the whole of examples/grpo_cpu: three seeds, a quarter of an hour"
	@echo "make check     linters, types, dependency rule"
	@echo "make site      build the documentation into build/site"
	@echo "make names     record the names that packages offer to each other"
	@echo "make docs      check that the documents' links and commands are true"
	@echo "make viewer    build the page of palestra view from viewer-ui; needs Node 20 and npm"
	@echo "make viewer-check  the same, and an error when the built page in the tree is another"
	@echo "make pictures  record the pictures that the viewer's pages are held to"

GYM := packages/palestra-gym
$(INSTALLED): requirements.lock pyproject.toml $(GYM)/pyproject.toml
	@echo "== installing into $(VENV)"
	@$(PYTHON) scripts/supported_pythons.py check
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements.lock
	$(UV) pip install --python $(BIN)/python --no-deps --editable . ./$(GYM)
	@touch $@

demo: $(INSTALLED)
	@echo "== the embedded model's weights (once, about 93 MB)"
	$(BIN)/palestra models fetch local
	@echo "== 25 reasoning tasks, 4 rollouts each"
	$(BIN)/palestra eval reasoning_gym --model local --limit 25 --repeats 4 --max-output-tokens 48
	@echo "== look at its rollouts in the browser: $(BIN)/palestra view runs"


# Files of tests are spread over processes, in the order of tests/conftest.py: three on two processors,
# because a quarter of the time is waiting. Those marked alone (each of them is slow, too) come last, with
# one other of their kind beside them at the most.
SPREAD ?= -n 3 --dist loadfile --no-loadscope-reorder
PAIRS ?= -n 2 --dist loadfile --no-loadscope-reorder

test: $(INSTALLED)
	$(BIN)/pytest $(SPREAD) -m "not slow and not alone"

# On another Python, in an environment of its own: make test-python PYTHON=python3.13
OTHER = .venv-$(shell $(PYTHON) -c 'import sys; print("%s.%s" % sys.version_info[:2])')
test-python:
	$(MAKE) $(OTHER)/installed VENV=$(OTHER)
	$(OTHER)/bin/pytest $(SPREAD) -m "not slow and not alone"

# The same against the built wheel, in a copy of the checkout that has no src.
WHEEL = .venv-wheel-$(OTHER:.venv-%=%)
test-wheel:
	$(MAKE) $(WHEEL)/installed VENV=$(WHEEL)
	rm -rf $(WHEEL)/dist $(WHEEL)/tree
	$(WHEEL)/bin/python -m uv build --quiet --wheel --out-dir $(WHEEL)/dist .
	$(WHEEL)/bin/python -m uv pip install --quiet --python $(WHEEL)/bin/python --no-deps --reinstall $(WHEEL)/dist/*.whl
	mkdir $(WHEEL)/tree
	git ls-files -z ':!src' | tar --null -T - -cf - | tar -xf - -C $(WHEEL)/tree
	cd $(WHEEL)/tree && ../bin/pytest $(SPREAD) -m "not slow and not alone and not source"

test-all: $(INSTALLED)
	$(BIN)/palestra models fetch local
	$(BIN)/pytest $(SPREAD) -m "not alone"
	$(BIN)/pytest $(PAIRS) -m alone

# As many rollouts as ROLLOUTS says; the whole claim of 0 mismatches is made for 1000.
ROLLOUTS ?= 50
test-vllm: $(INSTALLED)
	$(BIN)/python scripts/vllm_environment.py
	PALESTRA_VLLM_ROLLOUTS=$(ROLLOUTS) $(BIN)/pytest -m vllm -s

CLIENTS ?= .venv-clients
test-clients: $(INSTALLED)
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(CLIENTS)
	$(UV) pip install --quiet --python $(CLIENTS)/bin/python --editable . --group clients
	$(CLIENTS)/bin/python -m pytest -rs tests/responses_api_models/test_foreign_clients.py -k litellm

# TRL and torch for CPUs, in an environment of their own; uv reads no setting of pip's, so where a
# machine keeps wheels is told to it here.
TRL ?= .venv-trl
TORCH := $(if $(PIP_FIND_LINKS),$(addprefix --find-links ,$(PIP_FIND_LINKS)),--torch-backend cpu)
$(TRL)/installed: $(INSTALLED)
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(TRL)
	$(UV) pip install --python $(TRL)/bin/python $(TORCH) --editable '.[reasoning-gym]' --group trl
	@touch $@

test-trl: $(TRL)/installed
	PALESTRA_TRL_PYTHON=$(abspath $(TRL))/bin/python $(BIN)/pytest -rs tests/training/test_grpo_cpu.py

train-example: $(TRL)/installed
	$(TRL)/bin/python examples/grpo_cpu/train.py

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_language.py

# The documents, and a reference made from the code: build/site/index.html, which loads nothing.
site: $(INSTALLED)
	$(BIN)/python scripts/documentation

# After the names in a package's door have changed on purpose.
names: $(INSTALLED)
	$(BIN)/python scripts/public_names.py

docs: $(INSTALLED)
	$(BIN)/pytest tests/docs

# The page of `palestra view`. What is built is in the tree, so only who changes it needs Node.
UI := viewer-ui
$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json
	@command -v npm >/dev/null || { echo "The viewer's page is built with Node 20 and npm; npm is not there." >&2; exit 1; }
	cd $(UI) && npm ci --ignore-scripts
	@touch $@

viewer: $(INSTALLED) $(UI)/node_modules/.package-lock.json
	$(BIN)/python scripts/viewer_types.py
	cd $(UI) && npm run --silent types && npm run --silent build

# Built into another folder and compared byte by byte, so that nothing in the tree hides a difference.
viewer-check: $(INSTALLED) $(UI)/node_modules/.package-lock.json
	$(BIN)/python scripts/viewer_types.py --check
	rm -rf build/viewer
	cd $(UI) && npm run --silent types && node build.mjs ../build/viewer
	diff -r build/viewer src/palestra/viewer/static || { echo "The built page is not current: run make viewer and commit it." >&2; exit 1; }

# After the look of the viewer's pages has changed on purpose, or with another Chromium.
pictures: $(INSTALLED)
	PALESTRA_WRITE_PICTURES=1 $(BIN)/pytest tests/viewer/test_viewer_pictures.py

lock:
	$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--all-extras --group dev --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	grep -A 1000 '^uv==' requirements.lock | awk 'NR > 1 && !/^    / {exit} {print}' > requirements-uv.lock

clean:
	rm -rf build $(VENV) .venv-3.* .venv-wheel-* $(CLIENTS) $(TRL) .mypy_cache .ruff_cache .pytest_cache .hypothesis
