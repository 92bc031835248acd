# make demo | test | test-all | test-heavy | mutants | soak | labs | lab | bench: each sets up what it needs, the first time and after changes of pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Of pytest: one more than there are cores was no quicker.
WORKERS ?= $(shell nproc)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What pytest rewrites of the tests (six seconds a process) is kept for the next run, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-heavy mutants test-gpu test-browser soak labs flink-lab llama-lab lab site bench lint pins release clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(READY) ## grade a class of ten submissions with nbgrader, and show what came out
	@$(BIN)/python demo/run.py

test: $(READY) ## run the tests
	@echo "Running the tests (some minutes on two cores)"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-all: $(READY) ## run also the tests that take long: the day's share of all mutants, every chapter and attack, hundreds of random programs
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not gpu and not soak and not browser"

test-heavy: $(READY) ## run only the tests that take long
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "heavy and not gpu and not soak"

mutants: $(READY) ## run every mutant (wrong solution) against its exercise
	@RANKUP_WHOLE=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -k a_wrong_submission_is_caught -m "not gpu" tests/exercises

test-gpu: $(READY) ## run the tests that need an NVIDIA GPU, grade every exercise of ranks there, and write docs/gpu.md
	@$(BIN)/python -m tools.gpu

test-browser: $(READY) ## go through JupyterLab as a learner and a teacher, in a real browser; pictures in build/browser (needs Chromium)
	@nice $(BIN)/python -m pytest -m browser -rs tests/browser
	@echo "Look at the pictures in build/browser"

soak: $(READY) ## takes days: right solutions with many seeds, every mutant, and a thousand gradings with faults
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "soak and not gpu"
	@$(BIN)/python benchmarks/soak.py

labs: $(READY) ## set up and run the labs on real engines, and keep what came out (FAST=1: those below a minute; LABS="dask mpi": only these)
	@nice $(BIN)/python -m tools.labs $(if $(FAST),--fast) $(LABS)

flink-lab: $(READY) ## kill a task manager of a real Flink cluster (the first time, this sets up Flink: 1 GB)
	@$(BIN)/python -m tools.labs flink

llama-lab: $(READY) ## send the same requests to llama.cpp's server and to ours (the first time, this builds llama.cpp: 20 minutes)
	@$(BIN)/python -m tools.labs llama

lab: $(READY) ## open JupyterLab on the course
	@$(BIN)/rankup lab

site: $(READY) ## build the executed chapters, the exercises and the cards as pages (the first time ten minutes)
	@$(BIN)/python site/build.py

bench: $(READY) ## run the benchmarks, next to what people would use instead
	@for each in benchmarks/[a-z]*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

lint: $(READY) ## check formatting, lint and types
	@twice=$$(find tests -name 'test_*.py' -printf '%f\n' | sort | uniq -d); \
	  [ -z "$$twice" ] || { echo "test files must differ in name to be run together: $$twice" >&2; exit 1; }
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

release: $(READY) ## update notebooks and README's table to match each EXERCISE, and make exercises/ from solutions/
	@$(BIN)/rankup exercise sync

pins: $(READY) ## rewrite constraints.txt from what is installed
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## remove what make made, .venv too
	rm -rf .venv build

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rankup needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Setting up .venv (the first time: 3 GB and a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]' | grep -v '^Requirement already' || true
	@# Boxes may not write what Python compiles there. Of a file that changed later, Python sees it by its time and size.
	@$(BIN)/python -m compileall -q -x /right/ grader course/lib
	@$(BIN)/python -c 'import grader, torch, nbgrader' && touch $@
