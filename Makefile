# make demo | test | prove | simulate | check | bench | clean        each installs first what it needs, into .venv

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first that is 3.11 to 3.14 is taken, that of .venv before others; `make PYTHON=/path/to/python ...` decides otherwise.
PYTHON := $(or $(PYTHON),$(shell for p in .venv/bin/python python3.11 python3 python3.12 python3.13 python3.14; do \
    "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$p && break; done))
version = $(shell "$(1)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VERSION := $(call version,$(PYTHON))
# .venv is of the Python that it was made with; another version that is asked for has .venv-VERSION beside it.
VENV := $(if $(filter-out $(VERSION),$(call version,.venv/bin/python)),.venv-$(VERSION),.venv)
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: help setup check test prove simulate demo bench guard-model clean constraints requirements

help:
	@echo "make demo    see a node boot, work, be killed, come back and be audited (under a minute)"
	@echo "make test    every test, real Ray included"
	@echo "make prove   the slow tests and the long proofs: kills under load, nodes and links killed, recall;"
	@echo "             make prove PART=kills for one of them"
	@echo "make simulate SEEDS=1000"
	@echo "             the kernel under a virtual clock, with crashes, losses and slow disks drawn from each seed"
	@echo "make check   ruff, mypy, import contract; make check PYTHON=python3.13 for another one than .venv has"
	@echo "make bench   measurements, each beside a floor of the same run"
	@echo "make guard-model"
	@echo "             fit cognition/guard/model.bin to its texts anew; a test says when it has to be"
	@echo "make clean   remove .venv and what tools leave"

requirements:
	@missing=(); \
	[ "$$(uname -s)" = Linux ] || missing+=("Linux (this is $$(uname -s))"); \
	if ! "$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; \
	then missing+=("Python 3.11 to 3.14"); \
	elif ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; \
	then missing+=("the venv module of $(PYTHON) (on Debian and Ubuntu: the package python3-venv)"); \
	elif ! "$(PYTHON)" -c 'import os, sysconfig as s, sys; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))'; \
	then missing+=("the headers of $(PYTHON) (on Debian and Ubuntu: the package python3-dev)"); fi; \
	command -v "$${CXX:-g++}" >/dev/null \
	|| missing+=("a C++ compiler (on Debian and Ubuntu: the package g++; another one by CXX=)"); \
	if (( $${#missing[@]} )); then \
	    printf 'weftos needs Linux, Python 3.11 to 3.14 with venv and headers, a C++ compiler, and make; missing here: '; \
	    (IFS=';'; echo "$${missing[*]}."); exit 1; \
	fi >&2

setup: $(STAMP)

# pip first, by its own hash: the one bundled with a Python may be too old. Then everything else by hash, hnswlib last of
# it: it comes as source alone, and is compiled with what was just installed by hash instead of whatever build isolation
# would fetch. `make setup HNSWLIB_NO_NATIVE=1` compiles it for any processor of the kind, not just this machine's. Then
# this project, editable, which by itself has no hash.
$(STAMP): constraints.txt pyproject.toml | requirements
	[ -x $(PY) ] || "$(PYTHON)" -m venv $(VENV)
	sed -n '/^pip==/,/^ *#/p' constraints.txt > $(VENV)/pip.txt
	$(PY) -m pip install --quiet --require-hashes -r $(VENV)/pip.txt
	sed -n '/^hnswlib==/,/^ *#/p' constraints.txt > $(VENV)/compiled.txt
	sed '/^hnswlib==/,/^ *#/d' constraints.txt > $(VENV)/wheels.txt
	$(PY) -m pip install --quiet --require-hashes -r $(VENV)/wheels.txt
	$(PY) -m pip install --quiet --require-hashes --no-build-isolation --no-cache-dir -r $(VENV)/compiled.txt
	$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $(STAMP)

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --python-version $(VERSION)
	$(VENV)/bin/lint-imports --no-logo

# Hundreds of interpreters start here: each would compile what the one before it has, were it not kept, whatever the
# caller's environment says.
test prove simulate: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(PY) -m pytest -m "not slow" --numprocesses 4

prove: setup
	$(PY) tests/prove/run.py $(foreach part,$(PART),--part $(part))

SEEDS := 100
simulate: setup
	$(PY) -m tests.simulation --seeds $(SEEDS)

demo: setup
	$(PY) -P -m weftos.demo

bench: setup
	$(PY) benchmarks/run.py

guard-model: setup
	$(PY) -m tools.guard.model

clean:
	rm -rf .venv .venv-3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Pins and hashes anew from pyproject.toml, in a throw-away environment; today's pins are kept where they still fit.
constraints: | requirements
	tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	"$(PYTHON)" -m venv "$$tmp"; \
	"$$tmp/bin/pip" install --quiet pip-tools; \
	CUSTOM_COMPILE_COMMAND="make constraints" "$$tmp/bin/pip-compile" --quiet --generate-hashes --allow-unsafe \
	    --extra dev --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	    --no-emit-options --output-file constraints.txt pyproject.toml
