# make demo | quick | test | plain | torch | check | docs | bench | soak | newest | mutants | tables | figures | golden
# | same | library (for C)
# Needs Python 3.11+ and Rust (cargo) on the PATH, nothing else: the first call makes .venv.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock pyproject.toml
PACKAGE := $(shell find python -type f -not -name '*.pyc' -not -name '*.so')
# the plan of a published run (NVIDIA Megatron-Bridge, FP8), with a quarter of its micro-batches
DEMO := $(BIN)/lightloom compare qwen3-235b-a22b --gpus 256 --gpu h100 --rate 400 --precision fp8 \
	--tp 2 --pp 8 --vpp 4 --ep 32 --ep-mode folded --overlap-all-to-all batch \
	--micro-batches 32 --seeds 1

TABLES := $(filter-out $(addprefix experiments/,interconnect/% infinitehbd-trace/% atlahs/%), \
	$(shell grep -le '--check' experiments/*/run.py))
# experiments that draw; each leaves a stamp, so that a call that was cut short goes on where it was
FIGURES := $(patsubst experiments/%/figure.svg,%,$(wildcard experiments/*/figure.svg))
STAMPS := out/figures$(if $(FAST),-fast)
TORCH = $(BOUNDED) $(BIN)/uv pip install --quiet --compile-bytecode --python .venv/torch torch==2.15.0 numpy pydantic
BOUNDED := $(shell command -v timeout >/dev/null && echo timeout 600)

.PHONY: demo quick test torch browser plain check docs bench soak newest mutants tables figures golden same library clean

demo: .venv/installed
	@mkdir -p out
	$(DEMO) --html out/report.html --json out/results.json --timeline out/timeline.json.gz
	@echo "Open out/report.html in a browser; load out/timeline.json.gz at https://ui.perfetto.dev"

# What a change of one room is likely to break, in less than a minute; a room alone is one line, such
# as .venv/bin/python -m pytest tests/unit/fabric or cargo test -p lightloom-flowsim.
QUICK := tidy $(addprefix unit/,demand fabric hardware inputs models output parallel \
	test_units.py test_errors.py test_workflows.py)
quick: .venv/installed-test
	$(BIN)/python -m pytest -n auto $(addprefix tests/,$(QUICK))

# Cases of property tests are the same in each run: what passes once passes again, and `make soak`
# draws others.
test: .venv/installed-test browser plain
	PROPTEST_RNG_SEED=1 cargo test --release --workspace --exclude lightloom-python --quiet
	$(BIN)/python -m pytest -n auto

# PyTorch for the tests of the recorder, in a Python of its own: the build for CPUs (200 MB), or where
# its index cannot be reached the common one (5 GB on disk). Without it those tests are skipped.
torch: .venv/installed-test
	@{ [ -x $(BIN)/uv ] || $(BIN)/pip install --quiet uv; } \
		&& $(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv/torch \
		&& { $(TORCH) --torch-backend cpu 2>/dev/null \
			|| { df -Pk . | awk 'NR == 2 { exit $$4 < 15000000 }' && $(TORCH); }; } \
		&& .venv/torch/bin/python -c "import torch" \
		|| { rm -rf .venv/torch; echo "No PyTorch: tests of the recorder are skipped (make torch)"; }

# Pages are tested in a real browser; as root in CI it is installed, elsewhere that is said.
browser:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
		|| { [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
			&& apt-get update -qq && apt-get install -qq --yes chromium >/dev/null; } \
		|| echo "No Chromium: tests of pages are skipped (apt-get install chromium)"

# The wheel without extras in an empty environment, where tests run what the documentation shows.
plain: .venv/plain/installed

.venv/plain/installed: .venv/installed-test $(PACKAGE)
	rm -rf .venv/plain target/plain
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir target/plain .
	$(BIN)/python -m venv .venv/plain
	.venv/plain/bin/pip install --quiet target/plain/*.whl
	@touch $@

check: .venv/installed-docs docs
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest lightloom._core --mypy-config-file pyproject.toml

docs: .venv/installed-docs
	$(BIN)/mkdocs build --quiet --strict
	@echo "Open out/site/index.html in a browser"

bench: .venv/installed-test
	cargo bench --workspace --exclude lightloom-python
	$(BIN)/python benches/run.py
	$(BIN)/python benches/demand.py
	$(BIN)/python benches/prediction.py
	$(BIN)/python benches/control.py

# A million hostile inputs for each entry of the core and each parser of switch protocols, other cases
# of property tests, twenty times the cases of the laws of a step, long random runs of the controller,
# traces of the frameworks that tests/soak/requirements.txt pins, training with hooks in two, a
# thousand faults of a testbed, and a sweep on a Ray cluster of two nodes that are killed.
soak: .venv/installed-test torch
	cargo test --release --workspace --exclude lightloom-python --quiet
	LIGHTLOOM_SOAK=100 $(BIN)/python -m pytest tests/fuzz -n auto
	LIGHTLOOM_SOAK=20 $(BIN)/python -m pytest tests/laws -n auto
	LIGHTLOOM_SOAK=1 $(BIN)/python -m pytest tests/unit/trace
	$(BIN)/python -m tests.control_sim --seeds 500 --requests 1000
	$(BIN)/python -m tests.control_soak
	$(BIN)/python -m tests.testbed_soak
	[ ! -x .venv/torch/bin/python ] || $(BIN)/uv pip install --quiet --python .venv/torch \
		--requirement tests/soak/requirements.txt
	$(BIN)/pip install --quiet 'ray[client]>=2.55' || echo "No Ray: tests of clusters are skipped"
	LIGHTLOOM_SOAK=1 $(BIN)/python -m pytest tests/soak

# Traces of the newest release of PyTorch and of each framework, against real runs.
newest: .venv/installed-test torch
	@mkdir -p out
	sed 's/==/>=/' tests/soak/requirements.txt > out/newest.txt
	$(BIN)/uv pip install --quiet --upgrade --python .venv/torch --requirement out/newest.txt
	$(BIN)/uv pip list --python .venv/torch
	LIGHTLOOM_SOAK=1 $(BIN)/python -m pytest tests/unit/trace tests/soak/trace

# Puts faults into the lines that have changed since yesterday (or SINCE=COMMIT), one at a time, and
# says which no test notices; where no line has, into a sample that changes with the day.
SINCE ?= $(shell git rev-list -1 --before=yesterday HEAD)
mutants: .venv/installed-test
	@mkdir -p out
	cargo mutants --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-mutants@27.1.0
	$(BIN)/pip install --quiet cosmic-ray==8.7.0
	git diff $(SINCE) -- 'crates/*.rs' > out/changed.diff
	[ -s out/changed.diff ] && lines="--in-diff out/changed.diff" || lines="--shard $$(date +%-j)/367"; \
		PROPTEST_RNG_SEED=1 cargo mutants --output out --exclude 'crates/python/**' $$lines \
		|| [ $$? = 2 ] || [ $$? = 3 ]
	$(BIN)/python benches/mutants.py $(SINCE)

# Recomputes what experiments have measured and names each table that is out of date, in an hour or
# two; all but those that need measurements that are not shipped.
tables: .venv/installed-test
	@for run in $(TABLES); do \
		echo $$run; $(BIN)/python $$run --check >/dev/null 2>out.log || { grep differs out.log || tail -1 out.log; late=1; }; \
	done; rm -f out.log; [ -z "$$late" ]

# Draws the figures of experiments and makes their tables, those whose inputs are newer than the last
# time; with FAST=1 a few rows of each are checked instead, in some minutes.
figures: $(FIGURES:%=$(STAMPS)/%)

.SECONDEXPANSION:
$(STAMPS)/%: .venv/installed-test $(PACKAGE) \
		$$(wildcard experiments/*.py experiments/$$*/*.py experiments/$$*/*.toml)
	@mkdir -p $(@D)
	$(BIN)/python experiments/$*/run.py $(if $(FAST),--fast,--write) >/dev/null
	@touch $@

# Whether some 300 calls give what they gave, in a few minutes; where results are to change:
# make same RENEW=--renew
same: .venv/installed-test
	$(BIN)/python -m tests.same $(RENEW)

golden: .venv/installed-test
	$(BIN)/python -m pytest tests/golden --update-golden

library:
	cargo build --release --package lightloom-c
	@echo "target/release/liblightloom.a and .so; the header is in crates/c/include"

clean:
	rm -rf .venv target out python/lightloom/_core*.so

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@command -v cargo >/dev/null || { echo "Rust is needed: install cargo (rustup.rs)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip

.venv/installed: .venv/bin/python $(SOURCES)
	$(BIN)/pip install --quiet --editable .
	@touch $@

.venv/installed-test: .venv/bin/python $(SOURCES)
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@ .venv/installed

.venv/installed-docs: .venv/bin/python $(SOURCES)
	$(BIN)/pip install --quiet --editable '.[test,docs]'
	@touch $@ .venv/installed-test .venv/installed
