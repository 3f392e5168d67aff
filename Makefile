# Every task of development. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | sort | column -t -s '	'

demo: $(READY)  ## train a model that adapts in Leduc, print its results and write their page (2 to 3 minutes)
	$(BIN)/overtrick train jobs/leduc_meta.yaml

test: $(READY)  ## run the tests; ONLY=solvers runs those of one folder of the package
	tests=$$($(if $(ONLY),$(BIN)/python tests/by_folder.py $(ONLY),true)) && \
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $$tests

slow: $(READY)  ## run the tests marked slow and print their times; ONLY=name runs some
	$(BIN)/python -m pytest -m slow -rA --durations=0 $(if $(ONLY),-k "$(ONLY)")

test-gpu: $(READY)  ## run the tests that need a GPU; they are skipped on a machine without one
	$(BIN)/python -m pytest -m gpu -rs

faults: $(READY)  ## kill and interrupt commands, fill their disk, and print what was lost
	$(BIN)/python -m pytest -m slow tests/flow/test_disturbed_commands.py

check: $(READY)  ## check lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(READY)  ## feed N=100000 damaged inputs (SEED=1) to every way into the package
	$(BIN)/python -m tests.fuzz $(or $(N),100000) $(or $(SEED),1)

bench: $(READY)  ## run every bench side by side with its peer; ONLY=name runs one
	$(BIN)/python -m tests.bench $(ONLY)

peers: build/peers/.ready  ## install the libraries of the benches that need environments of their own (Python 3.13 as PEER_PYTHON)

mutants: $(READY)  ## change lines one at a time and list the changes that no test detects; FILES="..." of some files, SEED=1, JOBS=2
	$(BIN)/python -m tests.mutants --seed $(or $(SEED),1) --jobs $(or $(JOBS),2) $(FILES)

# --strict: fail on a package that the service does not know
audit: $(READY)  ## list known vulnerabilities of the pinned dependencies, by PyPI or by OSV's files in ADVISORIES=folder
	$(if $(ADVISORIES),$(BIN)/python -m tests.advisories $(ADVISORIES),$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt)

# torch has no hash: its wheel depends on the machine (CUDA or CPU) and may be a local file
lock: build/tools/.ready  ## write requirements.lock: the pinned dependencies with the hashes of their files
	printf '# Written by `make lock` from constraints.txt. Install torch first, then:\n#   pip install --require-hashes --no-deps -r requirements.lock\n# %s\n' "$$(grep '^torch==' constraints.txt)" > build/requirements.lock
	grep -v '^torch==' constraints.txt | build/tools/bin/uv pip compile --quiet --no-deps --no-annotate \
	    --no-header --generate-hashes --python-version 3.11.9 - >> build/requirements.lock
	mv build/requirements.lock requirements.lock

sbom: $(READY) build/tools/.ready  ## write build/sbom.json: the installed packages in CycloneDX's format
	build/tools/bin/cyclonedx-py environment --pyproject pyproject.toml -o build/sbom.json $(BIN)/python

pin-images: $(READY)  ## write the digests of the container images in docker/ and cluster/ beside their tags
	$(BIN)/python -m tests.pin_images

champions: $(READY)  ## train the champions anew in build/champions; ONLY="..." some, REPLACE=--replace puts better ones in place
	$(BIN)/python -m tests.champions train $(ONLY) $(REPLACE)

champions-check: $(READY)  ## measure the figures of the champions again; ONLY="..." of some
	$(BIN)/python -m tests.champions check $(ONLY)

tables: $(READY)  ## write the tables that come from the code into the pages of docs/
	$(BIN)/python docs/tables.py

tutorials: $(READY)  ## run the notebooks of docs/tutorials and store their outputs
	$(BIN)/python docs/tutorials.py

docs: $(READY)  ## build the pages into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dashboard: $(READY)  ## serve MLflow's dashboard on http://127.0.0.1:5000
	$(BIN)/overtrick dashboard

clean:  ## remove .venv and build
	rm -rf .venv build

# torch first and alone, so that every other package finds the pinned release.
# Kernels that numba compiled from an earlier version may name modules that have moved.
$(READY): pyproject.toml constraints.txt
	find platform -name '*.nb[ci]' -delete
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

# LiteEFG compiles itself for minutes; nashbench needs Python 3.12 or newer
build/peers/.ready:
	$(PYTHON) -m venv build/peers/liteefg
	build/peers/liteefg/bin/pip install --quiet --disable-pip-version-check LiteEFG==1.0.0 open_spiel==2.0.2
	$(PYTHON) -m venv build/peers/openspiel
	build/peers/openspiel/bin/pip install --quiet --disable-pip-version-check open_spiel==2.0.2 cvxpy==1.9.3 ecos==2.0.14 matplotlib==3.11.2 networkx==3.6.1
	$(or $(PEER_PYTHON),python3.13) -m venv build/peers/nashbench
	build/peers/nashbench/bin/pip install --quiet --disable-pip-version-check nashbench==0.2.0
	@touch $@

build/tools/.ready:
	$(PYTHON) -m venv build/tools
	build/tools/bin/pip install --quiet --disable-pip-version-check uv==0.13.9 cyclonedx-bom==7.5.0
	@touch $@

.PHONY: help demo test slow test-gpu faults check fuzz bench mutants audit lock sbom champions champions-check tables tutorials docs dashboard clean
.DEFAULT_GOAL := help
