# The first Python that this project supports; another with `make BASE_PYTHON=...`. Not PYTHON, by
# which people call the one of the environment that is made here.
BASE_PYTHON ?= $(shell for p in python3.11 python3.10 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' 2>/dev/null \
	&& echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
# Nothing that is added later may change what behaviour depends on.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check -c requirements-common.txt
WORKERS ?= 2
# Horovod's wheel takes minutes to build and belongs to one Python and one TensorFlow; `make clean`
# leaves it here.
WHEELS = .wheels/$(shell $(RUN) -m pip freeze 2>/dev/null | sed -n 's/^\(tensorflow.*\)==/\1-/p' | grep -E '^tensorflow(-cpu)?-[0-9]')

.PHONY: help install install-dev horovod demo test test-faults test-gaudi test-multihost lint format \
	bench-features bench-scaling bench-precision bench-pretraining-data bench-step clean

help:
	@echo "make demo        install, then train, predict and score on the sample (4 minutes)"
	@echo "make test        install, then check the style and run all tests (10 minutes)"
	@echo "make horovod     install Horovod and mpirun, for several workers (4 minutes the first time)"
	@echo "make install     make .venv with requirements.txt"
	@echo "make bench-features  time features beside two other ways, FLAGS=... for other files"
	@echo "make bench-step  time a training step and a prediction beside transformers (needs torch)"
	@echo "make test-gaudi  build the graphs of a Gaudi card with the real bridge (CPython 3.10)"
	@echo "make test-faults  kill and stop runs at random moments and compare what they end as (1 hour)"
	@echo "make test-multihost  run a job on two hosts made of network namespaces (root)"
	@echo "make bench-scaling  time one worker beside two"
	@echo "make bench-precision  loss and scores in float32 and bfloat16, on the sample (8 minutes)"
	@echo "make bench-pretraining-data  time pretraining data beside a plain way, FLAGS=--mb=100"
	@echo "make clean       remove .venv, .venv-gaudi and what the demo wrote"

$(VENV)/installed: requirements.txt requirements-common.txt
	@test -n "$(BASE_PYTHON)" || { echo "make: error: needs Python 3.10 or 3.11, see README.md"; exit 1; }
	$(BASE_PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	$(PIP) -r requirements-dev.txt
	@touch $@

$(VENV)/installed-horovod: $(VENV)/installed requirements-horovod.txt
	$(PIP) $$(sed -n '/^[co]/p' requirements-horovod.txt)
	@ls $(WHEELS)/horovod-*.whl >/dev/null 2>&1 || echo "building Horovod, 2 to 4 minutes"
	@ls $(WHEELS)/horovod-*.whl >/dev/null 2>&1 || PATH="$(CURDIR)/$(VENV)/bin:$$PATH" \
	HOROVOD_WITH_MPI=1 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 \
	HOROVOD_WITHOUT_MXNET=1 $(RUN) -m pip wheel --quiet --no-build-isolation --no-deps \
	--wheel-dir $(WHEELS) $$(grep '^horovod' requirements-horovod.txt)
	$(PIP) --find-links $(WHEELS) -r requirements-horovod.txt
	@touch $@

horovod: $(VENV)/installed-horovod

install: $(VENV)/installed

install-dev: $(VENV)/installed-dev

demo: install
	$(RUN) -m sample.demo

lint: install-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: install-dev
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

test: lint horovod
	$(RUN) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder
	$(if $(PYTHON310),$(MAKE) test-gaudi,@echo "skipped: tests/gaudi, which need CPython 3.10")

$(VENV)/installed-bench: $(VENV)/installed-dev requirements-bench.txt
	$(PIP) -r requirements-bench.txt
	@touch $@

bench-features: $(VENV)/installed-bench
	$(RUN) -m benchmarks.features $(FLAGS)

# The bridge to Gaudi cards is for CPython 3.10; without one, `make test` leaves its tests out.
PYTHON310 ?= $(shell for p in python3.10 $(HOME)/.pyenv/versions/3.10.*/bin/python3.10; do \
	$$p -c 'import ensurepip' 2>/dev/null && echo $$p && break; done)
GAUDI := .venv-gaudi

$(GAUDI)/installed: requirements-gaudi.txt requirements-common.txt requirements-dev.txt
	@test -n "$(PYTHON310)" || { echo "make: error: needs CPython 3.10: PYTHON310=..."; exit 1; }
	$(PYTHON310) -m venv $(GAUDI)
	$(GAUDI)/bin/python -m pip install --quiet --disable-pip-version-check \
	$$(grep -hE '^(tensorflow|habana-tensorflow|pytest==)' requirements-gaudi.txt requirements-dev.txt) \
	-r requirements-common.txt
	@touch $@

test-gaudi: $(GAUDI)/installed
	$(GAUDI)/bin/python -m pytest tests/gaudi/training_graph.py

test-faults: install-dev horovod
	$(RUN) -m tests.faults.kills_and_signals $(FLAGS)

test-multihost: install-dev horovod
	$(RUN) -m pytest tests/multihost/two_hosts.py

bench-scaling: horovod
	$(RUN) -m benchmarks.scaling $(FLAGS)

bench-pretraining-data: install
	$(RUN) -m benchmarks.pretraining_data $(FLAGS)

bench-precision: install
	$(RUN) -m benchmarks.precision $(FLAGS)

bench-step: install-dev
	$(RUN) -m benchmarks.step $(FLAGS)

clean:
	rm -rf $(VENV) $(GAUDI) demo_output build
