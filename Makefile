# Two commands on a fresh machine: `make demo` and `make test`. They need Python >= 3.11 and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_PROJECT ?= demo-project
CLIENTS := build/clients

.PHONY: demo test check bench lock clean

demo: $(VENV)/installed
	$(BIN)/casework demo --project $(DEMO_PROJECT) $(if $(MODEL),--model $(MODEL))

test: $(VENV)/installed $(CLIENTS)/installed
	$(BIN)/python -m pytest

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layout.py tests/test_tidy.py

bench: $(VENV)/installed
	$(BIN)/python bench/store.py --quick
	$(BIN)/python bench/durable.py --quick
	$(BIN)/python -m bench.line --quick
	$(BIN)/python -m bench.gateway --quick
	$(BIN)/python -m bench.soak --requests 20000 --disk-outage 20 --around 10

lock:
	uv export --format requirements-txt --no-emit-project --extra local-model --extra parquet \
		--extra pdf --no-header --output-file requirements.lock
	for name in sdk libraries; do uv pip compile --universal --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --python-version 3.11 \
		tests/clients/$$name.in --output-file tests/clients/$$name.lock; done

clean:
	rm -rf $(VENV) $(CLIENTS) $(DEMO_PROJECT)

$(VENV)/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Casework needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# The clients of other houses that the tests run, apart from the environment of the product.
$(CLIENTS)/installed: tests/clients/install.py $(wildcard tests/clients/*.lock) tests/clients/node-sdk.json
	$(PYTHON) tests/clients/install.py $(CLIENTS)
	@touch $@
