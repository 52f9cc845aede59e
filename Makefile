# `make up` runs a broker, `make test` runs every test, and `make check` runs the fast ones. Each installs what it needs
# first: `make up` only what the broker needs, the others also the development tools.
PYTHON ?= python3
BIN := .venv/bin
# In an environment of its own, so that its dependencies do not choose the versions of ours.
IMPORT_LINTER := .venv/import-linter
RUNS := .venv/.runs
STAMP := .venv/.installed

# Compiled files are always kept, because compiling them again in each process takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install up check test test-newest-spark first-day simulate histories fuzz soak bench bench-triggers bench-spark bench-growth \
	bench-hostile bench-security docs format clean

$(RUNS): pyproject.toml
	@echo "Installing Tailrace and what it needs into .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	touch $@

up: $(RUNS)
	$(BIN)/tailrace up

install: $(STAMP)

$(STAMP): $(RUNS)
	@echo "Installing the tools of development and the clients of the tests into .venv"
	$(PYTHON) -m venv $(IMPORT_LINTER)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --group dev --group clients
	$(BIN)/python -m pip --python $(IMPORT_LINTER)/bin/python install --quiet --group imports
	touch $@

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src $(IMPORT_LINTER)/bin/lint-imports
	$(BIN)/pytest -n auto --dist worksteal

# What a newcomer does: install from a copy of the sources with an empty home, and take every step of README and first day.
first-day:
	PYTHONPATH=compat_tests $(PYTHON) -m first_day

test: check first-day
	PYTHONPATH=compat_tests $(BIN)/python -P -m etcd_server
	$(BIN)/pytest -m etcd
	PYTHONPATH=compat_tests:src $(BIN)/python -P -m kubernetes_server
	$(BIN)/pytest -m kubernetes
	$(BIN)/pytest -m slow -n 2 --dist worksteal --timeout 900
	PYTHONPATH=compat_tests $(BIN)/python -P -m peer.jars
	PYTHONPATH=compat_tests $(BIN)/python -P -m kafka_python.own_suite
	PYTHONPATH=compat_tests $(BIN)/python -P -m other_languages.programs
	$(BIN)/pytest compat_tests --ignore compat_tests/spark -n 2 --timeout 120
	$(BIN)/pytest compat_tests/spark -n 2 --dist loadfile

# Jobs with a newer PySpark than the one of the other tests, in an environment of its own: 500 MB to download.
NEWEST_SPARK := .cache/newest-spark
NEWEST_PYSPARK := 4.3.0
test-newest-spark:
	$(PYTHON) -m venv $(NEWEST_SPARK)
	$(NEWEST_SPARK)/bin/python -m pip install --editable '.[spark]' pyspark==$(NEWEST_PYSPARK) \
		confluent-kafka hypothesis kafka-python==3.0.12 psutil pytest pytest-timeout pytest-trio trustme
	$(NEWEST_SPARK)/bin/pytest tests/pipeline compat_tests/newest_spark

# Whole clusters in a seed each: docs/reliability.md. GROUPS=1 looks at consumer groups. Of one seed, FAULTS=0,3 leaves
# the others out, VERBOSE=1 says more.
SEEDS ?= 100
FIRST_SEED ?= 0
POLICY ?= all
REPLICAS ?= 3
simulate: install
	PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) --first-seed $(FIRST_SEED) --policy $(POLICY) \
		--replicas $(REPLICAS) $(if $(GROUPS),--groups) $(if $(TRIGGERS),--triggers) $(if $(TRANSACTIONS),--transactions) \
		$(if $(SMALL_TURNS),--small-turns) \
		$(if $(FAULTS),--faults $(FAULTS)) $(if $(VERBOSE),--verbose)

# What clients saw of simulated transactions, checked by Adya (`cargo install adya --no-default-features`).
CHECKER ?= adya
histories: install
	PYTHONPATH=tests $(BIN)/python -m simulation.transactions.external_check --checker $(CHECKER) --seeds $(SEEDS) \
		--first-seed $(FIRST_SEED) --policy $(POLICY)

# Mutated requests, headers, frames and batches: docs/security.md. A failure is an input that finds a bug.
INPUTS ?= 1000000
fuzz: install
	PYTHONPATH=tests $(BIN)/python -m fuzzing --inputs $(INPUTS) --seed $(SEED) --failures .cache/fuzzing

# Fault runs with all faults, in an order that SEED chooses: that of triggers until RECORDS are handled, or with
# SOAK=pipeline that of the archive or with SOAK=engine that of triggers on Spark, until PIPELINE_FAULTS have happened,
# or with SOAK=transactions that of transactions until TRANSACTION_FAULTS have happened.
SOAK ?= triggers
RECORDS ?= 100000
PIPELINE_FAULTS ?= 21
TRANSACTION_FAULTS ?= 40
SEED ?= 1
soak: install
ifeq ($(SOAK),pipeline)
	TAILRACE_SOAK_FAULTS=$(PIPELINE_FAULTS) TAILRACE_SOAK_SEED=$(SEED) $(BIN)/pytest -s \
		compat_tests/pipeline/test_archive_faults.py
else ifeq ($(SOAK),engine)
	TAILRACE_SOAK_FAULTS=$(PIPELINE_FAULTS) TAILRACE_SOAK_SEED=$(SEED) $(BIN)/pytest -s \
		compat_tests/pipeline/test_engine_faults.py
else ifeq ($(SOAK),transactions)
	TAILRACE_TRANSACTION_FAULTS=$(TRANSACTION_FAULTS) TAILRACE_CHAOS_SEED=$(SEED) \
		$(BIN)/pytest -s compat_tests/transactions/test_transaction_faults.py
else
	TAILRACE_SOAK_RECORDS=$(RECORDS) TAILRACE_SOAK_SEED=$(SEED) $(BIN)/pytest -s compat_tests/triggers/test_fault_run.py
endif

# The same work against Apache Kafka and this broker by turns; BENCH="--rounds 3 --only latency" runs less of it.
bench: install
	PYTHONPATH=compat_tests $(BIN)/python bench/run.py $(BENCH)

# One topic of this broker, handled by Quix Streams, FastStream and a trigger; BENCH="--rounds 1 --only no-op" runs less.
bench-triggers: install
	PYTHONPATH=compat_tests $(BIN)/python bench/triggers/run.py $(BENCH)

# One broker, used with the connector of Spark and with our jobs; BENCH="--rounds 1 --only values" runs less.
bench-spark: install
	PYTHONPATH=compat_tests $(BIN)/python bench/spark/run.py $(BENCH)

# How the time and the memory of the jobs on Spark grow; BENCH="--megabytes 200 2000 20000" needs 50 GB of disk.
bench-growth: install
	PYTHONPATH=compat_tests:tests $(BIN)/python bench/spark/growth.py $(BENCH)

# A well-behaved client beside each attack; BENCH="--only huge_array" runs less of it.
bench-hostile: install
	PYTHONPATH=compat_tests $(BIN)/python bench/hostile/run.py $(BENCH)

# Encryption, logins, access rules and quotas; BENCH="--rounds 1 --only logins" runs less of it.
bench-security: install
	PYTHONPATH=compat_tests:bench $(BIN)/python bench/security/run.py $(BENCH)

# The parts of docs/ that are written from the code.
docs: install
	$(BIN)/python -m tailrace.protocol.compatibility > docs/compatibility.md
	$(BIN)/python -m tailrace.server.authorization.permission_page
	PYTHONPATH=tests $(BIN)/python -m architecture_map

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
