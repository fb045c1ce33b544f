# Everything one does with this project, the same at home and in continuous integration. `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run quick test integration coverage check check-types check-all-else setup setup-tests format types problem problem-docs verdict-docs docs node bench demo-data gate try-stack chaos

# The first Python of at least 3.11 makes the virtual environment; say PYTHON=... to choose another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv/bin
# Django wants a secret and a database even where neither is used.
CHECK_ENV := PKB_SECRET_KEY=for-checks-only PKB_DATABASE_URL=sqlite://:memory:

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## the virtual environment with what the site and a node need
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or say PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) deploy/install.py site

setup-tests: ## the same, and what tests and checks need
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or say PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) deploy/install.py tests

run: setup ## set up what is missing and serve; HOST and PORT from the environment (127.0.0.1:8000)
	@exec $(VENV)/python deploy/serve.py

# Two workers; a file's tests stay together, for they share judges and ranks.
PARALLEL := -n $(or $(WORKERS),2) --dist loadfile

quick: setup-tests ## pure logic and the problems that changed, in a minute
	@$(VENV)/python -m pytest --tier quick $(PARALLEL) $(ARGS)

test: setup-tests ## install what the tests need and run all that need no server; ARGS="-k word" for some of them
	@$(VENV)/python -m pytest --tier test $(PARALLEL) $(ARGS)

integration: setup-tests ## tests with servers, browser and whole installations
	@$(VENV)/python -m pytest --tier integration $(PARALLEL) $(ARGS)

check: setup-tests ## format, lint, types, import contracts, manual, templates, migrations, API schema, compose, manifests, alerts, Dockerfiles, scripts
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-all-else

# The longest of the checks without a cache, on one processor: the others run beside it.
check-types:
	$(CHECK_ENV) $(VENV)/mypy

check-all-else:
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(CHECK_ENV) $(VENV)/lint-imports --no-logo
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict  # its --quiet would hide the warnings from --strict
	$(VENV)/djlint templates --lint --quiet
	$(CHECK_ENV) $(VENV)/python manage.py makemigrations --check --dry-run
	$(CHECK_ENV) $(VENV)/python manage.py spectacular --validate --fail-on-warn --file /dev/null
	$(CHECK_ENV) $(VENV)/python manage.py check --fail-level WARNING
	sh deploy/check-compose.sh
	promtool check config deploy/monitoring/prometheus.yml deploy/monitoring/prometheus.bare.yml
	promtool test rules deploy/monitoring/alerts_test.yml
	$(VENV)/python deploy/kubernetes/check.py
	$(VENV)/hadolint deploy/Dockerfile.web deploy/Dockerfile.node
	$(VENV)/shellcheck deploy/*.sh deploy/slurm/pkb-node.sbatch
	$(VENV)/python deploy/audit_dependencies.py
	git ls-files -z portal client deploy evaluator/node '*.toml' Makefile | xargs -0 $(VENV)/detect-secrets-hook --baseline .secrets.baseline

format: setup-tests ## put Python into its form
	$(VENV)/ruff format .
	$(VENV)/ruff check --fix .

problem: setup-tests ## one problem against itself, its mutants and its honest variants: make problem N=13
	@if [ -z "$(N)" ]; then \
		echo "make problem N=<number>: runs the tests of one problem (reference against itself, mutants, honest variants)"; \
		echo "for example: make problem N=13"; exit 2; fi
	@$(VENV)/python -m pytest tests/problems --problem $(N) $(ARGS)

problem-docs: setup-tests ## docs/problems.md with the problems that it lacks; N=13 runs that one again, ARGS=--all each
	@$(VENV)/python -m tools.tables.problems_page $(if $(N),--problem $(N)) $(ARGS)

docs: setup-tests ## the manual with its own search, as a site of files in var/manual; ARGS="serve" shows it while you write
	@$(VENV)/mkdocs $(or $(ARGS),build --strict)

verdict-docs: setup-tests ## docs/judge/verdicts.md from the facts in evaluator/judging/verdicts.py
	@$(VENV)/python -m tools.tables.verdicts_page

client-types: setup-tests ## the client's types, client/pkb/results.py, from the OpenAPI document
	@PKB_SECRET_KEY=unused PKB_DATABASE_URL=sqlite://:memory: $(VENV)/python -m tools.tables.client_types

node: setup ## judge for a queue on this machine: make node PROFILE=cpux2
	@if [ -z "$(PROFILE)" ]; then \
		echo "make node PROFILE=<profile>: judges for the site that PKB_SITE_URL and PKB_BROKER_URL name"; \
		echo "for example: make node PROFILE=cpux2"; exit 2; fi
	@exec $(VENV)/python -m evaluator.node --profile $(PROFILE)

try-stack: setup ## does the whole chain work here? servers, site and node from nothing to a verdict: make try-stack PROFILE=cpux2
	@$(VENV)/python deploy/try_full_stack.py --profile $(or $(PROFILE),cpux2) $(ARGS)

# million: every page, list and search, intake, exports and live pages over a million submissions, in one table.
# judging: by stage, cold and warm. launches: the usual way, one launch per program and trial. boards: a million submissions
# in PostgreSQL. pages: weight, paint and queries in Chromium. intake: submissions a second. runs, client: an 870-attempt
# run, exports, the agent loop. links: bytes of the references on NVLink. connections: silent visitors, open live pages.
# submit: from Submit to the verdict on an idle node.
WHAT ?= judging
bench: setup-tests ## measure: WHAT=judging (default), building, launches, oracles, million, boards, pages, intake, nodes, heartbeats, runs, client, links, connections or submit; ARGS="--help" for each
	@PYTHONPATH=client $(VENV)/python -m tools.bench.$(WHAT) $(ARGS)

MINUTES ?= 20
chaos: setup-tests ## does anything get lost while everything dies? 16 nodes, MINUTES=20 SEED=1
	@$(VENV)/python -m tools.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

demo-data: setup ## a million invented submissions into the configured database (ARGS="--submissions 1000", "--remove")
	@$(VENV)/python manage.py migrate --verbosity 0
	@$(VENV)/python -m tools.bench.demo_data $(ARGS)

gate: setup-tests ## the long tests: the whole matrix of problems, fuzz, chaos; renews tests/problems/matrix_passed_at
	@$(VENV)/python -m pytest --tier gate $(ARGS)

PACKAGES = $(wildcard portal/*/ evaluator/*/ client/pkb/) problems/
coverage: setup-tests ## branches that the tests of `make test` execute in their own process, by package
	@$(VENV)/python -m pytest --tier test $(PARALLEL) -q --cov=portal --cov=evaluator --cov=problems --cov=client \
		--cov-branch --cov-report= $(ARGS)
	@for package in $(filter-out %__pycache__/,$(PACKAGES)); do \
		printf '%-28s %4s %%\n' $$package $$($(VENV)/coverage report --format=total --include="$$package*" 2>/dev/null); done
