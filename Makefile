# Everything a person does here. `make help` lists it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | sort | column -t -s '	'

demo: $(READY)  ## train the meta-model on Leduc and print its table (about 2 minutes)
	$(BIN)/overtrick train jobs/leduc_meta.yaml

test: $(READY)  ## all tests; ONLY=solvers runs those of one folder of the package
	tests=$$($(if $(ONLY),$(BIN)/python tests/of_room.py $(ONLY),true)) && \
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $$tests

slow: $(READY)  ## the tests that take long or start servers, and their times; ONLY=name runs some
	$(BIN)/python -m pytest -m slow -rA --durations=0 $(if $(ONLY),-k "$(ONLY)")

check: $(READY)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## every bench side by side with its peer; ONLY=name runs one
	$(BIN)/python -m tests.bench $(ONLY)

# --strict: a package that the service does not know is no package without holes
audit: $(READY)  ## known vulnerabilities of every pinned dependency; needs a network
	$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

docs: $(READY)  ## the pages, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dashboard: $(READY)  ## MLflow's dashboard on http://127.0.0.1:5000
	$(BIN)/overtrick dashboard

clean:  ## remove the environment and what was built
	rm -rf .venv build

# torch first and by itself: the pinned release is then what every other package finds.
# Kernels that numba compiled from an earlier version may name modules that have moved.
$(READY): pyproject.toml constraints.txt
	find platform -name '*.nb[ci]' -delete
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

.PHONY: help demo test slow check bench audit docs dashboard clean
.DEFAULT_GOAL := help
