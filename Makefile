# Everything that is done to this repository by hand or by a machine. Needs make and python3, nothing else.

PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.ready
FAST   := .venv/.prepared
JAR    := src/anabranch/engine/connector.jar

MINUTES ?= 30
SEEDS   ?= 1000

# Spark finds Java by JAVA_HOME; scripts/java.sh says where a Java is that Spark can use.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)"

.PHONY: help setup demo test check format connector docs sim chaos chaos-single pauses fuzz backlog test-long clean

help: ## List the targets
	@echo "usage: make TARGET"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) $(FAST) ## Install everything into .venv, and Java where that is possible; fast when nothing changed
	@scripts/java.sh > /dev/null

demo: setup ## Watch a query find slow network paths, for half a minute; ends with a summary and a plot
	@$(WITH_JAVA) $(BIN)/anabranch demo

test: setup ## Run the tests, all but the long ones
	@$(WITH_JAVA) $(BIN)/python scripts/test.py

test-long: setup ## Run all tests, also those that take minutes: every rule broken in turn, a million groups
	@$(WITH_JAVA) $(BIN)/python scripts/test.py --long

check: $(STAMP) ## Check format, lint, types, layers and the public names
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy src tests
	@$(BIN)/python -m pytest -q tests/unit/test_layers.py tests/unit/test_public_api.py

format: $(STAMP) ## Format the code and repair what lint can repair
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

connector: $(STAMP) ## Compile jvm/ into the jar that the package brings to Spark; a JRE is enough
	@$(WITH_JAVA) $(BIN)/python scripts/connector.py $(JAR)

docs: $(STAMP) ## Build the site of docs/ into build/site; a broken link fails it
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	@$(BIN)/python scripts/cli_reference.py
	@$(BIN)/python scripts/status_reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

sim: $(STAMP) ## Race replicas under simulated faults, a thousand seeds
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

chaos: MINUTES = 10
chaos: setup ## Ten minutes of random faults to replicas that race, and compare; MINUTES=5 for less
	@$(WITH_JAVA) $(BIN)/python -m tests.chaos --minutes $(MINUTES)

chaos-single: setup ## Kill a running node twenty times and compare its output with an undisturbed run
	@$(WITH_JAVA) $(BIN)/python -m tests.chaos.single

pauses: ROUNDS ?= 20
pauses: $(STAMP) ## Let entry points sleep in turn, twenty rounds, and see that every lane takes rows again; no Spark
	@$(BIN)/python -m tests.chaos.pauses --rounds $(ROUNDS)

fuzz: setup ## Random diagrams on Spark against the reference; MINUTES=30, or as many as you say
	@$(WITH_JAVA) $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

backlog: setup ## Work off ten million rows and watch the memory of every process
	@$(WITH_JAVA) $(BIN)/python -m tests.chaos.backlog

clean: ## Remove what setup, tests and checks made
	@rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist spark-warehouse
	@find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true

# The stamp names the directory it was made in: an environment that was copied or moved still points to the old place.
ifneq ($(shell cat $(STAMP) 2> /dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml scripts/venv.sh
	@PYTHON="$(PYTHON)" scripts/venv.sh
	@printf '%s\n' "$(CURDIR)" > $@

$(FAST): $(STAMP) $(JAR)
	@echo "Preparing Spark to start fast (one minute, once) ..."
	@$(WITH_JAVA) $(BIN)/anabranch prepare > /dev/null
	@touch $@
