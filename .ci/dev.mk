# The targets for developers: single checks, examples, measurements, packages. The Makefile includes
# this file. `make help-dev` lists the targets.
#
#   ETCD=3.7                the etcd for the specs and `make stress`: a minor version (3.5 or later: its
#                           newest release is built with Go), a release (3.5.34), "next" (the newest
#                           preview of the next version), or a directory with etcd and etcdctl; if
#                           unset, the installed etcd
#   MEMBERS=3               number of members of the etcd that the specs use
#   SECURE=1                run the specs against an etcd with certificates and passwords
#   COMMAND=PATH            the executable that the specs run as the command etcdlock, such as
#                           build/executable/etcdlock; if unset, the Lua script
#   PATIENCE=4              factor of the time limits in the specs, 4 on a quiet machine; if unset,
#                           `make suite` measures it
#   HISTORIES=25000         number of histories that `make sim` runs
#   FROM=1                  seed of the first history; commit: the seed follows from the present
#                           commit, so that each commit is tested with other histories
#   SUITE=bookworm|trixie   the Debian of `make fresh` and `make fresh-deb`: 12 or 13; forky: the next
#   ROWS="free ..."         the rows, or groups of rows, that `make bench` runs; all if unset
#   ENTRANTS="go ..."       the entrants that `make bench` runs; all if unset
#   CHECK=check|keep        `make cost` compares its figures with bench/cost.txt, or writes it
#   SECONDS=60              seconds for which `make stress` and each fuzz target run
#   SEED=1                  seed of the random numbers of `make stress` and of the mutants

SPEC ?= spec
SUITE ?= bookworm
HISTORIES ?= 25000
FROM ?= 1
# Number of spec files that run at the same time. It may exceed the number of cores, because specs
# mostly wait. With a sanitizer the number is lower, because the specs then use more CPU time.
JOBS ?= $(if $(SANITIZE),3,5)

# ---- running from the checkout --------------------------------------------------

# Lua prefers a versioned variable, such as LUA_PATH_5_4, to LUA_PATH. If the caller's environment
# had one, Lua would ignore RUN_ENV.
unexport $(foreach v,5_2 5_3 5_4 5_5,LUA_PATH_$(v) LUA_CPATH_$(v))
RUN_ENV := LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua;;' LUA_CPATH='$(BUILD)/?.so;;'
ETCD_DIR := $(if $(findstring /,$(ETCD)),$(abspath $(ETCD)),$(ETCD:%=$(CURDIR)/build/etcd/%))
# Debian installs nginx in /usr/sbin, which is not in every user's PATH.
export PATH := $(ETCD_DIR:%=%:)$(PATH):/usr/sbin:/sbin
# A command that builds the etcd of ETCD, or checks that it is there.
BUILD_ETCD := $(if $(findstring /,$(ETCD)),test -x $(ETCD_DIR)/etcd -a -x $(ETCD_DIR)/etcdctl || \
  { echo 'ETCD=$(ETCD): there is no etcd and etcdctl in this directory' >&2; false; }, \
  $(if $(ETCD),sh spec/support/servers/build_etcd.sh $(ETCD) $(ETCD_DIR),:))

# ---- the suite ------------------------------------------------------------------

# Libraries that specs load into a process with LD_PRELOAD.
PRELOADED := build/spec/refusing_grpc.so build/spec/machine.so
REPORTS := $(CURDIR)/$(BUILD)/reports
# Debian's busted is a Lua script, which every Lua can run. The busted of LuaRocks is a shell
# script.
BUSTED := /usr/bin/busted

# Variables that spec/support/harness/matrix.lua reads.
MATRIX_ENV := MATRIX_MEMBERS='$(MEMBERS)' MATRIX_SECURE='$(SECURE)' MATRIX_SANITIZE='$(SANITIZE)' \
  MATRIX_COMMAND='$(abspath $(COMMAND))'

# The interpreter that runs the specs. The address and the thread sanitizer need an interpreter that
# is built with the same sanitizer.
SUITE_LUA := $(if $(filter asan tsan,$(SANITIZE)),$(BUILD)/lua,$(LUA))
NGINX_FLAVOUR := $(if $(filter gcov,$(SANITIZE)),gcov,test)
SUITE_ENV_-asan = UBSAN_OPTIONS=print_stacktrace=1 \
  LSAN_OPTIONS=suppressions='$(CURDIR)/spec/support/harness/lsan.supp':print_suppressions=0 \
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
# setarch -R turns off address space layout randomization, because with it some kernels leave no
# room for the shadow memory of the thread sanitizer. intercept_tls_get_addr=0, because otherwise
# both sanitizers guess the size of the thread-local memory of a library, and sometimes crash.
SUITE_ENV_-tsan = \
  TSAN_OPTIONS=ignore_noninstrumented_modules=1:intercept_tls_get_addr=0:atexit_sleep_ms=0:suppressions='$(CURDIR)/spec/support/harness/tsan.supp':print_suppressions=0 \
  $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help-dev check-all check-deps suite example run-demo-openresty test-executable test-go test-all test-all-short test-etcd \
  test-etcd-short compatibility asan-short nginx-module sim model fuzz mutants known-mutants fresh fresh-executable bench-quick memory cost bench-report networks fleets elections \
  stress upgrade run-stress rock deb-deps deb fresh-deb

help-dev: ## list the targets of this file
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' .ci/dev.mk

check-all: ## everything that must hold before a release, in three hours
	@CHECKS=all bash .ci/run

check-deps: ## install the Debian packages that `make check-all` needs besides
	@sh .ci/deps.sh all $(LUA_VERSION)

suite: ## the specs alone: SPEC=spec/lock, with TESTING=1 or SANITIZE=asan|tsan
	+@$(PARALLEL) $(MODULE) $(PRELOADED) $(filter build/%,$(SUITE_LUA))
	@$(BUILD_ETCD)
	@$(MAKE) --no-print-directory nginx-module
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	@$(MATRIX_ENV) $(RUN_ENV) REPORTS='$(REPORTS)' JOBS=$(JOBS) V='$(V)' PATIENCE='$(PATIENCE)' \
	  COVERAGE='$(COVERAGE)' NGINX_BUILD='build/jit-$(NGINX_FLAVOUR)' \
	  $(SUITE_ENV_$(FLAVOUR)) $(LUA) spec/run.lua $(SPEC) -- $(SUITE_LUA) $(BUSTED)

# The module for nginx. nginx runs LuaJIT, even if another Lua runs the specs.
nginx-module:
	+@$(PARALLEL) LUA_VERSION=jit SANITIZE=$(filter gcov,$(SANITIZE)) TESTING=1 \
	  build/jit-$(NGINX_FLAVOUR)/etcdlock/core.so

sim: ## everything below Lua in simulated time: HISTORIES=25000, 150 s, FROM=1, SANITIZE=asan
	+@$(PARALLEL) $(SIMULATION)
	@$(SIMULATION) $(if $(filter commit,$(FROM)),$(FROM_COMMIT),$(FROM)) $(HISTORIES)

# The first hexadecimal digits of the commit as a number; 1 outside of a repository.
FROM_COMMIT = $$(c=$$(git rev-parse --short=6 HEAD 2>/dev/null) || c=1; printf '%d' "0x$$c")

# The specs of the functions whose behavior depends most on the version of Lua.
SHORT_LUA := $(addsuffix _spec.lua,$(addprefix spec/,lock/lock lock/with_lock lock/reentrancy lock/interrupted_calls \
  lock/garbage_collection observability/log)) spec/event_loop

test-all: deps ## all specs on every Lua: 5.1 to 5.4, LuaJIT, and 5.5 with luv
	@MAKE='$(MAKE) --no-print-directory' SPEC='$(SPEC)' sh spec/support/harness/luas.sh

test-all-short: ## a core of the specs on every Lua
	@$(MAKE) --no-print-directory test-all SPEC='$(SHORT_LUA)'

# A selection of specs that together cover most of the ways in which the core handles memory.
SHORT_ASAN := $(addsuffix _spec.lua,$(addprefix spec/,lock/lock lock/with_lock lock/loss \
  lock/guarded_writes lock/garbage_collection lock/batch lock/handoff lock/linger lock/queue \
  multi_lock/multi_lock semaphore/semaphore read_write/read_write election/election \
  election/observer cluster/connect cluster/identity process/fork event_loop/async \
  event_loop/wake_socket))

asan-short: deps ## a core of the specs under the address, undefined and leak sanitizers
	@$(MAKE) --no-print-directory SANITIZE=asan sim HISTORIES=250 FROM=commit
	@$(MAKE) --no-print-directory SANITIZE=asan SPEC='$(SHORT_ASAN)' suite

test-executable: deps executable ## the specs of the command, with the executable as the command
	@$(MAKE) --no-print-directory TESTING=1 suite SPEC=spec/command COMMAND=$(EXECUTABLE)

# `make test` does not install Go, because Go is large. Without Go, or without a module proxy or
# cache, it skips these specs.
test-go: deps ## the specs that run Go programs, with Go, which this installs
	@sh bench/prepare.sh go
	@$(MAKE) --no-print-directory TESTING=1 suite SPEC='spec/read_write/go_interop_spec.lua \
	  spec/election/go_interop_spec.lua spec/command/interop_spec.lua spec/stress/judge_spec.lua'

# The specs of `make test-etcd-short`, which runs them in the configuration that differs most from
# that of `make test`.
SHORT_ETCD := $(addsuffix _spec.lua,$(addprefix spec/lock/,lock queue loss max_hold with_lock \
  guarded_writes reentrancy etcdctl_interop))
RUN_TEST_ETCD := SPEC='$(SPEC)' SHORT='$(SHORT_ETCD)' sh spec/support/harness/test_etcd.sh

test-etcd: deps ## all specs with the installed etcd, 3.5, 3.6, 3.7, next; `make stress` with the last three
	@MAKE='$(MAKE)' $(RUN_TEST_ETCD)

test-etcd-short: deps ## a core of the specs with etcd 3.7, 3 members, certificates and passwords
	@MAKE='$(MAKE)' $(RUN_TEST_ETCD) short

compatibility: deps ## clients of each released version beside this one, in 5 minutes; prints their holds
	@RELEASES=all $(MAKE) --no-print-directory TESTING=1 V=1 SPEC=spec/compatibility suite

# Each run writes the seeds again. Inputs that a target has found stay in build/fuzz/corpus, and the
# next run begins with them too.
fuzz: ## feed hostile bytes to each reader, with clang, for SECONDS=60: one for each spec/fuzz/*.c
	@sh .ci/deps.sh fuzz $(LUA_VERSION)
	+@$(PARALLEL) $(FUZZ_TARGETS)
	@$(RUN_ENV) $(LUA) spec/fuzz/seeds.lua $(FUZZ)/seeds
	@$(RUN_ENV) SECONDS='$(or $(SECONDS),60)' sh spec/fuzz/run.sh $(FUZZ_TARGETS)

mutants: deps ## change FILES="src/..." in N=20 random places (SEED=1); print what no test notices
	@$(RUN_ENV) FILES='$(FILES)' SEED='$(SEED)' N='$(N)' LIMIT='$(LIMIT)' \
	  $(LUA) spec/mutants/run.lua

known-mutants: deps ## try the known mutants (spec/mutants/known.lua): ONLY="src/... 131" MOST=4 SEED=1
	@$(RUN_ENV) ONLY='$(ONLY)' MOST='$(MOST)' SEED='$(SEED)' PATIENCE=2 \
	  $(LUA) spec/mutants/try_known.lua

model: deps ## check the proof of a lease on SCHEDULES=100000 random schedules of a cluster
	@$(RUN_ENV) CC='$(CC)' SCHEDULES='$(SCHEDULES)' $(LUA) spec/model/run.lua

fresh: ## run README's commands on a fresh Debian: SUITE=bookworm|trixie|forky WITH=packages
	@SUITE='$(SUITE)' WITH='$(WITH)' sh .ci/fresh.sh

fresh-executable: ## run the executable on bare Debians: SUITE=bookworm|trixie|forky; all if unset
	@SUITES='$(if $(filter file,$(origin SUITE)),,$(SUITE))' sh .ci/fresh_executable.sh

# ---- examples -------------------------------------------------------------------

example: build-deps all ## run an example: NAME=hello ARGS=..., see examples/README.md
	@$(RUN_ENV) $(LUA) examples/run.lua $(NAME) $(ARGS)

run-demo-openresty:
	@$(RUN_ENV) $(LUA) examples/flash_sale.lua nginx

# ---- measurements ---------------------------------------------------------------

QUICK := ROWS='free names owners processes_2 nginx command' \
  ENTRANTS='etcdlock bare go nginx nginx_dict nginx_redis command etcdctl' \
  ROUNDS=3 SECONDS=0.5
bench-quick: deps ## a minute of `make bench`, to see that it works
	@sh bench/prepare.sh gnuplot go redis wrk
	@$(MAKE) --no-print-directory all executable
	@$(MAKE) --no-print-directory LUA_VERSION=jit all
	@$(RUN_ENV) $(QUICK) $(LUA) bench/run.lua

memory: deps ## measure the memory of a held lock, for doc/performance.md
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) bench/memory.lua

cost: deps ## count the instructions of a lock + unlock: CHECK=check or keep, see bench/README.md
	@sh bench/prepare.sh valgrind
	@$(MAKE) --no-print-directory all
	@$(MAKE) --no-print-directory LUA_VERSION=jit all
	@$(RUN_ENV) $(LUA) bench/cost.lua $(CHECK)

bench-report: ## put the results of the last run of all rows into the documents
	@$(RUN_ENV) $(LUA) bench/publish.lua

networks: deps ## compare etcdlock with etcdctl on bad networks and disks, as root: ROWS="haproxy dns"
	@sh bench/prepare.sh networks
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) ROWS='$(ROWS)' ROUNDS='$(ROUNDS)' $(LUA) bench/networks.lua

elections: deps ## what an election costs the clients: ELECTION="1 2" ROUNDS=20
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) ELECTION='$(ELECTION)' ROUNDS='$(ROUNDS)' $(LUA) bench/elections.lua

fleets: deps ## many clients with passwords, beside Go's client: ROWS="start-90 pause", ETCD=3.6
	@sh bench/prepare.sh go
	@$(MAKE) --no-print-directory all
	@$(BUILD_ETCD)
	@$(RUN_ENV) ROWS='$(ROWS)' ENTRANTS='$(ENTRANTS)' $(LUA) bench/fleets.lua

stress: deps ## random use and faults of a real etcd: SECONDS=60 SEED=1, SANITIZE=asan|tsan
	@$(MAKE) --no-print-directory $(if $(SANITIZE),,TESTING=1) run-stress

UPGRADE_TO := 3.5 3.6 3.7

upgrade: deps ## as stress, while the members are upgraded from the installed etcd to 3.5, 3.6, 3.7, next
	@for v in $(UPGRADE_TO); do sh spec/support/servers/build_etcd.sh $$v build/etcd/$$v || exit; done
	@if sh spec/support/servers/build_etcd.sh next build/etcd/next; then next=$(CURDIR)/build/etcd/next; fi; \
	  $(MAKE) --no-print-directory TESTING=1 SECONDS=900 run-stress \
	  ETCD_DIRS="$(UPGRADE_TO:%=$(CURDIR)/build/etcd/%) $$next"

# The history that porcupine judges: spec/stress/record.lua describes the format.
HISTORY := $(BUILD)/history.jsonl

run-stress:
	+@$(PARALLEL) $(MODULE) $(filter build/%,$(SUITE_LUA))
	@$(BUILD_ETCD)
	@rm -f '$(HISTORY)'
	@$(RUN_ENV) MATRIX_SANITIZE='$(SANITIZE)' HISTORY='$(HISTORY)' $(SUITE_ENV_$(FLAVOUR)) \
	  $(SUITE_LUA) spec/stress/run.lua $(or $(SECONDS),60) $(or $(SEED),1) $(ETCD_DIRS)
	@if [ -e '$(HISTORY)' ]; then sh spec/stress/judge.sh '$(HISTORY)'; fi

# ---- packages -------------------------------------------------------------------

rock: dist ## pack a rock; install, load and remove it in a tree of its own
	@sh .ci/rock.sh $(VERSION) $(LUA) $(LUA_ABI)

deb-deps: ## install the Debian packages that `make deb` needs
	@sh .ci/deps.sh deb $(LUA_VERSION)

deb: dist ## build/deb/*.deb: packages for the Debian that this runs on
	@sh .ci/deb.sh $(VERSION)

fresh-deb: ## build, install, use and remove them on a fresh Debian: SUITE=bookworm|trixie
	@SUITE='$(SUITE)' sh .ci/fresh_deb.sh

# ---- rules ----------------------------------------------------------------------

$(BUILD)/lua: spec/support/programs/lua_host.c
	$(call show,LINK)
	$(Q)$(CC) $(BASE_FLAGS) $(FLAGS_$(FLAVOUR)) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) \
	  $(LDFLAGS) -rdynamic -o $@ $< $(shell $(PKG_CONFIG) --libs $(LUA_PACKAGE)) -lm

build/spec/refusing_grpc.so: PRELOADED_LIBS = $(shell $(PKG_CONFIG) --libs-only-L grpc) \
  -Wl,--no-as-needed -lgrpc
build/spec/%.so: spec/support/programs/%.c
	$(call show,LINK)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -fPIC -shared $(shell $(PKG_CONFIG) --cflags grpc) \
	  $(CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LDFLAGS) -o $@ $< $(PRELOADED_LIBS)

# The simulator links src/ as it is, except lua/ and nginx/, with a second implementation of gRPC
# core's C API in place of the library. --wrap puts the simulator's functions in place of SIMULATED:
# the clock, threads, random numbers and locale of the system, and two functions of src/.
comma := ,
SIMULATOR := build/simulation$(filter -asan,$(FLAVOUR))
SIMULATION := $(SIMULATOR)/simulation
SIMULATION_OBJECTS := $(patsubst src/%.c,$(SIMULATOR)/%.o,$(wildcard $(addsuffix /*.c,\
  $(addprefix src/,base tls net etcd lock protocol)))) $(SIMULATOR)/etcd.pb-c.o \
  $(patsubst spec/simulation/%.c,$(SIMULATOR)/spec/%.o,$(wildcard spec/simulation/*.c))
SIMULATED_FLAGS := $(if $(filter -asan,$(FLAVOUR)),\
  $(filter -fsanitize=% -fno-sanitize-recover=% -fno-omit-%,$(FLAGS_-asan)))
SIMULATION_COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -Isrc -Ibuild/proto -Ispec/simulation \
  $(shell $(PKG_CONFIG) --cflags grpc libprotobuf-c) $(SIMULATED_FLAGS) $(CPPFLAGS) $(CFLAGS) \
  $(WARNINGS) -MMD -MP -c
SIMULATED := el_process_has_room el_tls_diagnose clock_gettime getrandom uselocale \
  $(addprefix pthread_,create join detach self setname_np sigmask mutex_lock mutex_unlock cond_wait \
  cond_timedwait cond_signal cond_broadcast)

$(SIMULATION): $(SIMULATION_OBJECTS)
	$(call show,LINK)
	$(Q)$(CC) $(SIMULATED_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
	  $(addprefix -Wl$(comma)--wrap=,$(SIMULATED)) -lgpr \
	  $(shell $(PKG_CONFIG) --libs libprotobuf-c openssl) -lpthread

$(SIMULATOR)/%.o: src/%.c build/proto/etcd.pb-c.h
	$(call show,CC  )
	$(Q)$(SIMULATION_COMPILE) -o $@ $<

$(SIMULATOR)/spec/%.o: spec/simulation/%.c build/proto/etcd.pb-c.h
	$(call show,CC  )
	$(Q)$(SIMULATION_COMPILE) -o $@ $<

$(SIMULATOR)/etcd.pb-c.o: build/proto/etcd.pb-c.c
	$(call show,CC  )
	$(Q)$(SIMULATION_COMPILE) -o $@ $<

-include $(SIMULATION_OBJECTS:.o=.d)

# The fuzz targets use libFuzzer of clang. Each file spec/fuzz/*.c is one target. all.a contains the
# objects of the core below Lua; the linker takes only those that a target needs. spec/fuzz/fuzz.h
# replaces the functions of the network.
FUZZ := build/fuzz
FUZZ_TARGETS := $(patsubst spec/fuzz/%.c,$(FUZZ)/%,$(wildcard spec/fuzz/*.c))
FUZZ_OBJECTS := $(patsubst src/%.c,$(FUZZ)/obj/%.o,$(filter-out src/lua/%,$(wildcard src/*/*.c))) \
  $(FUZZ)/obj/etcd.pb-c.o
FUZZ_SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_COMPILE = clang -std=c11 -D_GNU_SOURCE -DEL_TEST -pthread -Isrc -Ibuild/proto $(LUA_CFLAGS) \
  $(LIB_CFLAGS) -O1 -g -fno-omit-frame-pointer $(FUZZ_SANITIZE) -MMD -MP -c

$(FUZZ)/%: $(FUZZ)/obj/fuzz/%.o $(FUZZ)/all.a
	$(call show,LINK)
	$(Q)clang $(FUZZ_SANITIZE) -fsanitize=fuzzer -o $@ $^ $(LIBS) \
	  $(shell $(PKG_CONFIG) --libs $(LUA_PACKAGE))

$(FUZZ)/all.a: $(FUZZ_OBJECTS)
	$(call show,LINK)
	$(Q)$(AR) rcs $@ $^

$(FUZZ)/obj/fuzz/%.o: spec/fuzz/%.c | $(PROTO).h
	$(call show,CC  )
	$(Q)$(FUZZ_COMPILE) -fsanitize=fuzzer-no-link $(WARNINGS) -o $@ $<

$(FUZZ)/obj/%.o: src/%.c | $(PROTO).h
	$(call show,CC  )
	$(Q)$(FUZZ_COMPILE) -fsanitize=fuzzer-no-link $(WARNINGS) -o $@ $<

$(FUZZ)/obj/etcd.pb-c.o: $(PROTO).c
	$(call show,CC  )
	$(Q)$(FUZZ_COMPILE) -fsanitize=fuzzer-no-link -o $@ $<

.SECONDARY: $(FUZZ_TARGETS:$(FUZZ)/%=$(FUZZ)/obj/fuzz/%.o)

-include $(FUZZ_OBJECTS:.o=.d) $(FUZZ_TARGETS:$(FUZZ)/%=$(FUZZ)/obj/fuzz/%.d)
