# The two commands: `make demo` and `make test`. Each sets up all it needs in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SOURCES := $(shell find cpp src -name '*.[ch]pp' -o -name '*.py' -path 'src/*' 2>/dev/null) pyproject.toml CMakeLists.txt
JOBS   ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)

.PHONY: setup demo check test lint types format docs wheels bench papers fuzz sanitize clean
setup: $(STAMP)

$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "maxmargin: installing tools and libraries into $(VENV)"
	$(BIN)/python tools/install_requirements.py pyproject.toml
	touch $@

$(STAMP): $(VENV)/.tools $(SOURCES)
	@echo "maxmargin: the first time this takes some minutes of a compiler"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python tools/install_package.py
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo_letters.py

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(find cpp -name '*.[ch]pp')
	$(BIN)/python tools/check_imports.py src/maxmargin

# Whether type checkers know every public name; pyright brings its own Node, and finds no package inside of .venv.
types: $(STAMP)
	$(BIN)/python tools/install_requirements.py pyproject.toml types
	$(BIN)/python -m pytest tests/unit/test_types.py

format: $(VENV)/.tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(find cpp -name '*.[ch]pp')

# The inner loop: the fast tier, see CONTRIBUTING.md.
check: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test: $(STAMP) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# A portable wheel and an sdist in dist/, checked and tried in an empty environment; see tools/build_wheels.py.
wheels: $(VENV)/.tools
	$(BIN)/python tools/install_requirements.py pyproject.toml wheels
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python tools/build_wheels.py

# The site, in build/site/html. EXAMPLES=0 leaves out what the examples print, which takes a minute or two.
docs: $(STAMP) $(VENV)/.docs
	$(BIN)/python tools/write_compatibility.py
	$(BIN)/python tools/prepare_site.py build/site/source
	EXAMPLES=$(or $(EXAMPLES),1) $(BIN)/python -m sphinx -q -W --keep-going -b html -c docs build/site/source build/site/html
	$(BIN)/python tools/check_site.py build/site/html
	@echo "the site: build/site/html/index.html"

$(VENV)/.docs: $(VENV)/.tools
	$(BIN)/python tools/install_requirements.py pyproject.toml docs
	touch $@

# All fuzzers, each for SECONDS with SEED; fuzz/README.md says what they promise.
fuzz: $(STAMP)
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0)

# The core under the compiler's sanitizers, in build/; takes long.
sanitize: $(STAMP)
	$(BIN)/python tools/sanitized.py address
	$(BIN)/python tools/sanitized.py thread

# Tables and figures of the papers, and a page of them, in benchmarks/results/; ARGS="--quick" for few rows.
papers: $(STAMP)
	$(BIN)/python -m benchmarks.papers $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks.race

clean:
	rm -rf build dist $(VENV)
