# make demo            a translator from real data in minutes      (PAIR=en-de, en-fr, zh-en; MINUTES=5)
# make test            every check and test
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

.PHONY: demo test check unit install clean

demo: $(VENV)/.installed
	$(BIN)/dragoman corpus fetch home-assistant --pair $(PAIR) --out corpora
	$(BIN)/dragoman train $(CORPUS)/train.tsv --validation $(CORPUS)/valid.tsv --out $(MODEL) \
		--minutes $(MINUTES) --source-language $(firstword $(LANGUAGES)) --target-language $(lastword $(LANGUAGES))
	$(BIN)/dragoman evaluate $(MODEL) $(CORPUS)/test.tsv --examples 10
	@echo
	@echo "Your model lies in $(MODEL); its learning curves are $(MODEL)/run/curves.png. Next:"
	@echo "  $(BIN)/dragoman translate $(MODEL) FILE              # a text, line by line"
	@echo "  $(BIN)/dragoman train YOURS.tsv --out models/mine    # on your own translations"
	@echo "  $(BIN)/dragoman doctor                               # what this machine has"

test: check unit

check: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror src/dragoman/native/*.?pp src/dragoman/native/*.c

unit: $(VENV)/.tested
	$(BIN)/python -m pytest

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

clean:
	rm -rf $(VENV) build dist src/dragoman/native/*.so src/dragoman.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
