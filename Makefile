# Two commands do all the set-up: `make demo` and `make test`.
VENV   ?= .venv
PY     := $(VENV)/bin/python
# The newest Python from 3.11 on that is on PATH.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
JOBS   ?= 2

.PHONY: bench bench-browser bench-exits bench-exits-simulated compiled demo test chaos check format system clean

demo: $(VENV)/.ready compiled
	$(VENV)/bin/scrapy demo

# Files in their order: pytest-xdist's own has those with few tests, long crawls, come last.
test: $(VENV)/.ready-dev compiled system
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# A crawl is killed with `kill -9` 200 times (`make test`: 10 times), one that buys its pages
# 50 times by each protocol (twice).
chaos: $(VENV)/.ready-dev
	CHAOS_KILLS=200 $(PY) -m pytest -s tests/test_chaos.py
	API_KILLS=50 API_KINDS=tasks,batches $(PY) -m pytest -s tests/test_api_chaos.py

check: $(VENV)/.ready-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.ready-dev
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# Programs that are no Python packages: a browser and a real proxy, for the tests.
system:
	@sh scripts/system.sh

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer (with venv) is needed and was not found; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,postgres,scrapyd,metrics]'
	@touch $@

# pip compiles what it installs, and this source is not installed but linked. Where Python may not
# write what it has compiled (PYTHONDONTWRITEBYTECODE), every start would do it again: 0.4 s.
compiled: $(VENV)/.ready
	@$(PY) -m compileall -q retryscrape

# Measurements, side by side in one run, as ratios (docs/performance.md).
bench-browser: $(VENV)/.ready-dev system
	$(PY) benchmarks/browser.py
	$(PY) -m benchmarks.browser_mixed

# Other tools live in a set-up of their own: what they bring would change what we measure and test.
BENCH := $(VENV)-bench
bench: $(BENCH)/.ready
	@$(BENCH)/bin/python -m compileall -q retryscrape benchmarks
	$(BENCH)/bin/python -m benchmarks.throughput $(ARGS)

bench-exits: $(BENCH)/.ready
	@$(BENCH)/bin/python -m compileall -q retryscrape benchmarks
	$(BENCH)/bin/python -m benchmarks.exits $(ARGS)

$(BENCH)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer (with venv) is needed and was not found; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

bench-exits-simulated: $(VENV)/.ready-dev
	$(PY) benchmarks/exit_choice.py

clean:
	rm -rf $(VENV) $(BENCH) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
