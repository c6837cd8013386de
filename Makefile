# Tailrace. `make` alone lists what there is; every target sets up what it needs first.
# PYTHON=...  the Python 3.11+ that makes the virtual environment     ARGS=...  passed on to the command
.DEFAULT_GOAL := help
.PHONY: help setup setup-python setup-tests demo test test-sink test-emulator test-all durations coverage quick test-spark consumers images lint bench check audit docs version dist clean

PYTHON ?= python3
ARGS ?=
SPARK ?= 4.0
TESTS ?= tests/sink
BIN := .venv/bin
# Where this is set (as in many images), every process of the tests and of the demo compiles all it
# imports again: two of the three seconds that a publisher takes to start.
unexport PYTHONDONTWRITEBYTECODE
WORKERS := -n 4 --dist loadscope --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest $(WORKERS) --second-run --durations 30 --durations-min 1
QUICK := not kafka and not spark and not containers and not slow

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

setup: ## virtual environment, locked packages, Java and unixODBC, jars
	@$(require_python)
	@$(PYTHON) compose/tailrace_compose/local/set_up.py

setup-python:
	@$(require_python)
	@$(PYTHON) compose/tailrace_compose/local/set_up.py python

demo: setup ## real flights from SQL Server change tables to Delta tables, verified (ARGS="--days 7 --rate 0")
	@$(BIN)/tailrace demo $(ARGS)

setup-tests:
	@$(require_python)
	@$(PYTHON) compose/tailrace_compose/local/set_up.py test

test: setup-tests ## Tailrace's tests, in four workers (ARGS="-k lsn"; ARGS="-n 0" for one process)
	$(PYTEST) -m "not nightly and not containers and not thorough" tests $(ARGS)

test-sink: setup ## the tests with Spark that make test leaves out
	$(PYTEST) -m "thorough and not nightly and not containers" tests/sink tests/end_to_end $(ARGS)

test-emulator: setup ## the embedded server's tests
	$(PYTEST) emulator/tests $(ARGS)

test-all: setup test-emulator ## everything: also what needs containers, and what is only run nightly
	$(PYTEST) tests $(ARGS)

durations: setup ## record how long tests take, in tests/durations.json; on a quiet machine
	$(PYTEST) --record-durations -m "not containers" tests emulator/tests

coverage: setup ## lines and branches that make test runs, in all processes; a figure for each package
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(BIN)/python -m coverage run -m pytest $(WORKERS) --timeout 1500 -m "not nightly and not containers" tests $(ARGS) || true
	$(BIN)/python -m coverage combine -q
	@for package in publisher spark_sink schemas service tailrace; do $(BIN)/python -m coverage report --include "$$package/*" | sed -n "s|^TOTAL |$$package |p"; done

quick: setup ## the tests of every day: no broker, no Spark, no container, nothing slow (ARGS="-k lsn")
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "$(QUICK)" tests/unit tests/property $(ARGS)

test-spark: setup ## the sink's tests on another release of Spark (SPARK=4.2 TESTS=tests/sink/delta)
	@test -f .cache/spark-$(SPARK)/ready || ($(BIN)/python -m venv --without-pip --clear .cache/spark-$(SPARK) \
	&& echo "import site; site.addsitedir('$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')')" > $$(.cache/spark-$(SPARK)/bin/python -c 'import site; print(site.getsitepackages()[0])')/rest.pth \
	&& $(BIN)/pip --python .cache/spark-$(SPARK)/bin/python install --ignore-installed --require-hashes --no-deps --no-build-isolation --no-compile -r tests/sink/spark-$(SPARK).lock \
	&& touch .cache/spark-$(SPARK)/ready)
	PATH="$$PATH:$(CURDIR)/$(BIN)" .cache/spark-$(SPARK)/bin/python -m pytest -n 0 --durations 10 -m "not nightly and not containers" $(TESTS) $(ARGS)

consumers: setup ## programs of others over the topics: Debezium's JDBC sink into PostgreSQL (which must be installed), Flink SQL
	$(BIN)/python -m pytest -n 0 tests/consumers/jdbc_sink.py tests/consumers/flink_sql.py $(ARGS)

images: setup ## container images: publisher, emulator, sink, stand-ins for Kafka and registry (BASE=image ARGS="sink")
	$(BIN)/python -m tailrace_compose.images.build $(if $(BASE),--base $(BASE)) $(ARGS)

lint: setup-python ## ruff, mypy --strict, the layers of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## measure beside the ceilings; prints JSON (ARGS="encode --json")
	$(BIN)/python -m bench $(ARGS)

check: lint quick ## lint, then quick: what to run before a commit

docs: ## the documentation site, in .cache/site; a broken link is an error
	@$(require_python)
	@$(PYTHON) -m venv .cache/docs && .cache/docs/bin/pip install -q $$($(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])")
	.cache/docs/bin/sphinx-build --fail-on-warning --keep-going --builder html docs .cache/site $(ARGS)

audit: setup-python ## known holes in the locked versions, by PyPI's advisories (needs the network)
	@$(PYTHON) -m venv .cache/audit && .cache/audit/bin/pip install -q pip-audit==2.10.1
	.cache/audit/bin/pip-audit --require-hashes --disable-pip -r requirements.lock $(ARGS)

version: ## write the version of both distributions (NEW=0.2.0)
	@echo "$(NEW)" | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+[a-z0-9.]*$$' || { echo "which one? make version NEW=0.2.0" >&2; exit 1; }
	@echo "$(NEW)" > emulator/tailrace_emulator/VERSION
	@sed -i 's/"tailrace-emulator==[^"]*"/"tailrace-emulator==$(NEW)"/' pyproject.toml
	@echo "version $(NEW); make setup installs it; python -m tests.consumers.kit writes the conformance kit again"

dist: setup-python ## sdist and wheel of both distributions, in dist/
	@mkdir -p dist
	@for folder in emulator .; do (cd $$folder && $(CURDIR)/$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('$(CURDIR)/dist'); b.build_wheel('$(CURDIR)/dist')" > /dev/null 2>&1) || exit 1; done
	@rm -rf build emulator/build *.egg-info emulator/*.egg-info && ls dist

clean: ## remove what these targets made in the clone; the cache folder and .tailrace/stack stay
	rm -rf .venv dist build *.egg-info emulator/build emulator/*.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache .tailrace/demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define require_python
command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) was not found. Install Python 3.11 or newer (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=python3.12 setup" >&2; exit 1; }
endef
