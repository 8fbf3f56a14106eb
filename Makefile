# etcdlock: build, test, install. `make help` lists the targets.
#
#   LUA_VERSION=5.1|5.2|5.3|5.4|jit   which Lua to build for
#   TESTING=1                     with assertions and the test-only C module
#   SANITIZE=asan|tsan            the same, instrumented
#   SPEC=spec/lock                run these spec files, or directories, only
#   JOBS=5                        so many of them at a time (3 with SANITIZE)
#   ETCD_VERSION=3.5              which etcd: 3.4 is Debian 12's, 3.5 Debian 13's
#   SUITE=trixie                  which Debian `make fresh` is about: 12 is bookworm
#   MEMBERS=3 SECURE=1            run them with so many members, and with client
#                                 certificates and passwords
#   ROWS="uncontended nginx"      which rows of `make bench`
#   V=1                           show the commands

LUA_VERSION ?= 5.4
PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c
SPEC ?= spec
# They wait more than they work, unless they are instrumented.
JOBS ?= $(if $(SANITIZE),3,5)
SUITE ?= bookworm

ifeq ($(filter $(LUA_VERSION),5.1 5.2 5.3 5.4 jit),)
$(error LUA_VERSION=$(LUA_VERSION) is none of those that etcdlock is built for: \
  5.1, 5.2, 5.3, 5.4 and jit)
endif

ifeq ($(LUA_VERSION),jit)
LUA := luajit
LUA_ABI := 5.1
LUA_PACKAGE := luajit
else
LUA := lua$(LUA_VERSION)
LUA_ABI := $(LUA_VERSION)
LUA_PACKAGE := lua$(LUA_VERSION)
endif

# Files are compiled side by side, but the targets of the command line are made
# one after the other. Deeper makes take part in what the first one has begun.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
# What a build that was broken off has left.
IGNORE := $(shell rm -rf build/*/etcdlock/*.building build/sim/*.building)
else ifeq ($(MAKELEVEL),1)
MAKEFLAGS += --jobs=$(shell nproc)
endif

LUADIR = $(PREFIX)/share/lua/$(LUA_ABI)
LIBDIR = $(PREFIX)/lib/lua/$(LUA_ABI)
BINDIR = $(PREFIX)/bin
MANDIR = $(PREFIX)/share/man
COMPLETIONDIR = $(PREFIX)/share/bash-completion/completions
TYPEDIR = $(PREFIX)/share/etcdlock/types

LUA_FILES = $(shell cd lua && find * -name '*.lua')
TYPE_FILES = $(shell cd types && find * -name '*.lua')

# $(call installed,copy) and $(call installed,remove): for each file that is
# installed. There may be blanks in all these directories.
copy = install -D -m $(1) '$(2)' '$(DESTDIR)$(3)' &&
remove = rm -f '$(DESTDIR)$(3)' &&
installed = \
  $(foreach file,$(LUA_FILES),$(call $(1),644,lua/$(file),$(LUADIR)/$(file))) \
  $(foreach file,$(TYPE_FILES),$(call $(1),644,types/$(file),$(TYPEDIR)/$(file))) \
  $(call $(1),755,$(MODULE),$(LIBDIR)/etcdlock/core.so) \
  $(call $(1),755,$(BUILD)/command,$(BINDIR)/etcdlock) \
  $(call $(1),644,doc/etcdlock.1,$(MANDIR)/man1/etcdlock.1) \
  $(call $(1),644,$(BUILD)/completion,$(COMPLETIONDIR)/etcdlock)

# The directories that may be left without a file, the innermost first: ours, and
# those below PREFIX that Debian doesn't have from the beginning.
EMPTIED = $(foreach dir,$(shell cd lua && find * -type d | sort -r),\
  '$(DESTDIR)$(LUADIR)/$(dir)') '$(DESTDIR)$(LIBDIR)/etcdlock' \
  $(foreach dir,$(shell cd types && find * -type d | sort -r),'$(DESTDIR)$(TYPEDIR)/$(dir)') \
  '$(DESTDIR)$(TYPEDIR)' $(foreach dir,share/etcdlock share/lua/$(LUA_ABI) share/lua lib/lua/$(LUA_ABI) lib/lua share/man/man1 \
  share/bash-completion/completions share/bash-completion,'$(DESTDIR)$(PREFIX)/$(dir)')

# The installed command has absolute paths of its interpreter and of the module, and its
# completion has that of the command: nothing is looked for in the current directory.
absolute = $(if $(filter /%,$(1)),$(1),$(CURDIR)/$(1))
# LuaRocks moves the files of a rock to ROCK_TREE after they were installed.
in_tree = $(if $(ROCK_TREE),$(ROCK_TREE)/$(1),$(call absolute,$(2)))
FINAL_LUADIR = $(call in_tree,share/lua/$(LUA_ABI),$(LUADIR))
FINAL_LIBDIR = $(call in_tree,lib/lua/$(LUA_ABI),$(LIBDIR))
FINAL_BINDIR = $(call in_tree,bin,$(BINDIR))
INTERPRETER = $(filter /%,$(shell command -v '$(LUA)') $(LUA))
FOR_COMMAND = 1s|.*|\#!$(firstword $(or $(INTERPRETER),$(error There is no $(LUA) in an \
  absolute directory of PATH. Name the interpreter of the command: LUA=/usr/bin/$(LUA))))|; \
  s|^-- INSTALLED.*|package.path = "$(FINAL_LUADIR)/?.lua;$(FINAL_LUADIR)/?/init.lua;" \
  .. package.path\npackage.cpath = "$(FINAL_LIBDIR)/?.so;" .. package.cpath|
FOR_COMPLETION = s|etcdlock completion|'$(FINAL_BINDIR)/etcdlock' completion|

# The one place in which it stands.
VERSION := $(shell sed -n 's/.*_VERSION = "\(.*\)".*/\1/p' lua/etcdlock/init.lua)

# ---- where things go --------------------------------------------------------

FLAVOUR := $(or $(SANITIZE:%=-%),$(TESTING:%=-test))
BUILD := build/$(LUA_VERSION)$(FLAVOUR)
MODULE := $(BUILD)/etcdlock/core.so
PROTO := build/proto/etcd.pb-c
SIM := build/sim/sim
SCRIPTED := build/spec/scripted_server
REPORTS := $(CURDIR)/$(BUILD)/reports

SOURCES := $(wildcard src/*/*.c)
ifeq ($(FLAVOUR),)
SOURCES := $(filter-out src/lua/lua_test.c,$(SOURCES))
endif
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/etcd.pb-c.o

# The simulator drives the pure part of the lock, which needs no library.
SIM_OBJECTS := $(patsubst src/%.c,build/sim/%.o,$(wildcard src/rules/*.c) \
  src/base/error.c src/base/alloc.c src/base/jitter.c) $(patsubst spec/sim/%.c,build/sim/%.o,$(wildcard spec/sim/*.c))

# ---- flags ------------------------------------------------------------------

supported = $(foreach f,$(1),$(shell \
  $(CC) -Werror $(f) -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(f)))

LUA_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(LUA_PACKAGE))
LIB_CFLAGS = $(shell $(PKG_CONFIG) --cflags grpc libprotobuf-c libssl)
LIBS = $(shell $(PKG_CONFIG) --libs-only-L grpc) -lgrpc -lgpr \
  $(shell $(PKG_CONFIG) --libs libprotobuf-c libssl libcrypto) -lpthread

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2
ifeq ($(CI),true)
WARNINGS += -Werror
endif

HARDENING = -fstack-protector-strong -fno-delete-null-pointer-checks \
  -fno-strict-overflow $(call supported,-fstack-clash-protection \
  -fcf-protection=full -ftrivial-auto-var-init=zero)
# Distributions have a level of their own.
FORTIFY := $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,\
  -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)

MODE_ := -DNDEBUG $(FORTIFY)
MODE_-test := -DEL_TEST $(FORTIFY)
MODE_-asan := -DEL_TEST -fno-omit-frame-pointer -fstrict-overflow \
  -fsanitize=address,undefined -fno-sanitize-recover=undefined
MODE_-tsan := -DEL_TEST -fno-omit-frame-pointer -fsanitize=thread

# Expanded once, and only when something is compiled.
BASE_FLAGS = $(eval BASE_FLAGS := -std=c11 -D_GNU_SOURCE -fPIC -pthread \
  -fvisibility=hidden -Isrc -Ibuild/proto $$(HARDENING) $$(LUA_CFLAGS) \
  $$(LIB_CFLAGS))$(BASE_FLAGS)
COMPILE = $(CC) $(BASE_FLAGS) $(MODE_$(FLAVOUR)) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c

# The module is never unmapped: its threads may outlive the Lua state.
LINK := -shared -Wl,-z,nodelete -Wl,-z,relro,-z,now -Wl,-z,noexecstack \
  -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,--version-script=src/exports.map

# ---- running from the checkout ----------------------------------------------

# A versioned path in the caller's environment would hide ours.
unexport LUA_PATH_5_2 LUA_PATH_5_3 LUA_PATH_5_4
unexport LUA_CPATH_5_2 LUA_CPATH_5_3 LUA_CPATH_5_4
# etcd takes every ETCD_... for one of its flags.
unexport ETCD_VERSION
RUN_ENV := LUA_PATH='lua/?.lua;lua/?/init.lua;./?.lua;;' \
  LUA_CPATH='$(BUILD)/?.so;;'
# Where Debian has nginx, but not on every user's path.
export PATH := $(PATH):/usr/sbin:/sbin
# Debian's, which any Lua can run; a rock's is a shell script.
BUSTED := /usr/bin/busted

# The cell of the matrix, see spec/support/harness/cell.lua.
ETCD35 := build/etcd-3.5
CELL_ENV := CELL_ETCD='$(ETCD_VERSION)' CELL_MEMBERS='$(MEMBERS)' \
  CELL_SECURE='$(SECURE)' CELL_SANITIZE='$(SANITIZE)' \
  $(if $(filter 3.5,$(ETCD_VERSION)),PATH='$(CURDIR)/$(ETCD35)/usr/bin':"$$PATH")

# The sanitizers have an interpreter of their own, see there.
SUITE_LUA := $(if $(SANITIZE),$(BUILD)/lua,$(LUA))
SUITE_ENV_-asan = UBSAN_OPTIONS=print_stacktrace=1 \
  LSAN_OPTIONS=suppressions='$(CURDIR)/spec/support/harness/lsan.supp':print_suppressions=0 \
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
# Without a fixed address layout some kernels leave no room for its shadow.
# Both guess the size of a library's thread-local block from what stands in
# front of it, and now and then die of the guess, so they aren't asked to.
SUITE_ENV_-tsan = \
  TSAN_OPTIONS=ignore_noninstrumented_modules=1:intercept_tls_get_addr=0:atexit_sleep_ms=0:suppressions='$(CURDIR)/spec/support/harness/tsan.supp':print_suppressions=0 \
  $(shell setarch -R true 2>/dev/null && echo setarch -R)

# ---- targets ----------------------------------------------------------------

.PHONY: help deps build-deps all demo example demo-openresty test test-go test-all test-all-short matrix \
  matrix-short lint asan tsan fresh bench bench-quick bench-report profile scale family \
  family-short figures failover edges sim mutants suite nginx-module asan-short check-all \
  doc install uninstall dist rock deb-deps deb fresh-deb clean
.DEFAULT_GOAL := all

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' \
	  $(firstword $(MAKEFILE_LIST))

deps: ## install the Debian packages that are missing to test and check it all
	@sh .ci/deps.sh dev $(LUA_VERSION)

build-deps: ## those that are missing to build it, and etcd
	@sh .ci/deps.sh run $(LUA_VERSION)

all: $(MODULE) ## build the module for LUA_VERSION (5.1, 5.2, 5.3, 5.4 or jit)
	@:

# What follows `deps` runs in a second make, which sees the new packages.
demo: ## two services sell 300 items under 500 requests
	@sh .ci/deps.sh run $(LUA_VERSION)
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) examples/flash_sale.lua

example: ## run an example: NAME=hello ARGS=..., see examples/
	@sh .ci/deps.sh run $(LUA_VERSION)
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) examples/run.lua $(NAME) $(ARGS)

demo-openresty: ## the same in nginx: two services, one Redis, ab
ifeq ($(LUA_VERSION),jit)
	@sh .ci/deps.sh openresty jit
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) examples/openresty/demo.lua
else
	@$(MAKE) --no-print-directory LUA_VERSION=jit demo-openresty
endif

test: deps ## simulator, then every spec against a real etcd
	@$(MAKE) --no-print-directory $(SIM)
	@echo 'The simulator runs 25,000 histories of the lock logic ...'
	@$(SIM) >$(SIM).log || { cat $(SIM).log; false; }
	@tail -n 1 $(SIM).log
	@$(MAKE) --no-print-directory TESTING=1 suite

test-all: ## every spec on every Lua: 5.1, 5.2, 5.3, 5.4 and LuaJIT
	@MAKE='$(MAKE) --no-print-directory' SPEC='$(SPEC)' sh spec/support/harness/luas.sh

# What differs most from one Lua to another.
SHORT_LUA := $(addsuffix _spec.lua,$(addprefix spec/lock/,lock with_lock \
  reentrancy gc) spec/eyes/log spec/nginx/worker spec/nginx/resty) spec/wait

test-all-short: deps ## the core of them on every Lua
	@$(MAKE) --no-print-directory test-all \
	  SPEC='$(SHORT_LUA)'

# `make test` skips them where Go isn't installed: it is large.
test-go: deps ## the specs beside programs of Go's, with Go, which this installs
	@sh bench/prepare.sh go
	@$(MAKE) --no-print-directory TESTING=1 suite \
	  SPEC='spec/lock/go_spec.lua spec/lock/election_interop_spec.lua spec/command/interop_spec.lua'

matrix: deps ## every spec with etcd 3.4 and 3.5, 1 and 3 members, plain and secure
	@MAKE='$(MAKE)' sh spec/support/harness/matrix.sh

# The cell that is farthest from that of `make test`.
SHORT := lock queue lost max_hold with_lock guarded reentrancy interop

matrix-short: deps ## the core of them with etcd 3.5, 3 members, secure
	@$(MAKE) --no-print-directory TESTING=1 ETCD_VERSION=3.5 MEMBERS=3 SECURE=1 \
	  SPEC='$(SHORT:%=spec/lock/%_spec.lua)' suite

lint: deps ## format, static checks and the layer rules
	@clang-format --dry-run -Werror $(wildcard src/*/*.[ch] spec/sim/*.[ch] \
	  spec/support/*/*.c)
	@luacheck -q --no-color lua spec bench examples doc bin/etcdlock
	@$(LUA) spec/lint/layers.lua .

asan: deps ## the specs under the address, undefined and leak sanitizers
	@$(MAKE) --no-print-directory SANITIZE=asan suite

# What handles memory in the most different ways.
SHORT_ASAN := lock/lock lock/with_lock lock/lost lock/guarded lock/gc lock/batch lock/handoff \
  lock/linger lock/queue lock/multi lock/semaphore lock/read_write lock/election lock/observer \
  cluster/connect cluster/identity process/fork wait/async wait/wake

asan-short: deps ## the core of them under the same sanitizers
	@$(MAKE) --no-print-directory SANITIZE=asan SPEC='$(SHORT_ASAN:%=spec/%_spec.lua)' suite

tsan: deps ## the specs under the thread sanitizer
	@$(MAKE) --no-print-directory SANITIZE=tsan suite

check-all: ## everything that must hold before a release: half an hour and more
	@CHECKS=all bash .ci/run

fresh: ## README's commands on a fresh Debian: SUITE=bookworm|trixie, WITH=packages
	@SUITE='$(SUITE)' WITH='$(WITH)' sh .ci/fresh.sh

bench: deps ## etcdlock beside its peers, in turns, in ten minutes: see bench/README.md
	@sh bench/prepare.sh go python node wrk
	@$(MAKE) --no-print-directory all
	@$(MAKE) --no-print-directory LUA_VERSION=jit all
	@$(RUN_ENV) $(LUA) bench/run.lua $(ROWS)

bench-quick: deps ## a little of it in a minute, to see that it works
	@sh bench/prepare.sh go
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) bench/run.lua quick

profile: deps ## where the time of a lock goes, in a minute: see doc/performance.md
	@sh bench/prepare.sh go perf
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) bench/profile.lua

scale: all ## ten times and a hundred times as many owners, clients and names, in two minutes
	@$(RUN_ENV) $(LUA) bench/scale.lua

bench-report: ## put what bench, profile and scale have found into the documents
	@$(RUN_ENV) $(LUA) bench/publish.lua

family: all ## the kinds of lock beside the plain one, fought for by many, in three minutes
	@$(RUN_ENV) $(LUA) bench/family.lua

family-short: deps ## a few seconds of each
	@$(MAKE) --no-print-directory all
	@$(RUN_ENV) $(LUA) bench/family.lua short

figures: all nginx-module ## hand-off, takeover, cost of a lock, waiting in nginx
	@$(RUN_ENV) $(LUA) bench/figures.lua
	@$(RUN_ENV) $(LUA) bench/nginx.lua

failover: all ## what three members' ends cost: leader kills, restarts, silence
	@$(RUN_ENV) $(LUA) bench/failover.lua $(PARTS)

edges: all ## late writes, outages, contention and a wiped etcd, in six minutes
	@$(RUN_ENV) $(LUA) bench/edges.lua $(PARTS)

sim: $(SIM) ## the lock logic against a model of etcd, seeded histories
	@$(SIM)

# The build that specs use is the one that is broken, in copies.
mutants: ## break the code in one place at a time, and see who notices: ONLY="words"
ifeq ($(FLAVOUR),-test)
	@$(MAKE) --no-print-directory all nginx-module $(SIM) $(SCRIPTED)
	@$(RUN_ENV) JOBS='$(JOBS)' BUSTED='$(BUSTED)' $(LUA) spec/mutants/run.lua $(ONLY)
else
	@$(MAKE) --no-print-directory TESTING=1 mutants
endif

# See spec/run.lua, which is told here how the suite's Lua and busted are started.
suite: $(MODULE) $(SCRIPTED) $(if $(SANITIZE),$(SUITE_LUA)) nginx-module \
  $(if $(filter 3.5,$(ETCD_VERSION)),$(ETCD35)/usr/bin/etcd)
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	@$(CELL_ENV) $(RUN_ENV) REPORTS='$(REPORTS)' JOBS=$(JOBS) V='$(V)' \
	  $(SUITE_ENV_$(FLAVOUR)) $(LUA) spec/run.lua $(SPEC) -- $(SUITE_LUA) $(BUSTED)

# nginx runs LuaJIT, whatever runs the suite.
nginx-module: $(MODULE)
	@$(MAKE) --no-print-directory LUA_VERSION=jit SANITIZE= TESTING=1 all

# The pages go to build/doc. What is made for the repository is looked at by a spec.
doc: deps ## what the docstrings say: pages, doc/reference.md, types/ for LuaLS
	@mkdir -p build/doc
	@MODEL='$(CURDIR)/build/doc/model.lua' LUA_PATH='$(CURDIR)/?.lua;;' \
	  ldoc -q -c doc/generate/config.ld --filter doc.generate.model.write .
	@$(RUN_ENV) $(LUA) doc/generate/run.lua build/doc/model.lua
	@ldoc -q -c doc/generate/config.ld -d '$(CURDIR)/build/doc' .
	@echo 'The pages are in build/doc/index.html.'

install: all ## copy to PREFIX (and DESTDIR)
	@rm -f $(BUILD)/command $(BUILD)/completion
	@sed '$(FOR_COMMAND)' bin/etcdlock >$(BUILD)/command
	@sed "$(FOR_COMPLETION)" bin/etcdlock.bash >$(BUILD)/completion
	@$(call installed,copy) echo \
	  'Installed in $(DESTDIR)$(LUADIR), $(DESTDIR)$(LIBDIR) and $(DESTDIR)$(BINDIR).'

uninstall: ## remove what `make install` with the same PREFIX and LUA_VERSION has copied
	@$(call installed,remove) for dir in $(EMPTIED); do \
	  if [ -d "$$dir" ]; then rmdir --ignore-fail-on-non-empty "$$dir"; fi; \
	done; \
	echo 'Removed from $(DESTDIR)$(LUADIR), $(DESTDIR)$(LIBDIR) and $(DESTDIR)$(BINDIR).'

dist: ## build/dist/etcdlock-VERSION.tar.gz, and its rockspec
	@sh .ci/dist.sh $(VERSION)

rock: dist ## pack a rock of it, and install, load and remove that in a tree of its own
	@sh .ci/rock.sh $(VERSION) $(LUA) $(LUA_ABI)

deb-deps: ## install the Debian packages that `make deb` needs
	@sh .ci/deps.sh deb $(LUA_VERSION)

deb: dist ## build/deb/*.deb: packages for the Debian that it runs on
	@sh .ci/deb.sh $(VERSION)

fresh-deb: ## build them on a fresh Debian, install, use, remove them: SUITE=bookworm|trixie
	@SUITE='$(SUITE)' sh .ci/fresh_deb.sh

clean: ## remove everything that was built
	rm -rf build

# ---- building ---------------------------------------------------------------

Q := $(if $(V),,@)
# One line for all that is compiled together, at its beginning: whoever makes the
# directory is the first. V=1 shows the commands instead.
say = @mkdir -p $(@D) $(dir $(1))$(if $(V),,; mkdir $(1).building 2>/dev/null && \
  echo 'Building $(1)' || true)
said = @rmdir $@.building 2>/dev/null || true

$(MODULE): $(OBJECTS) src/exports.map
	$(call say,$@)
	$(Q)$(CC) $(CFLAGS) $(filter -fsanitize=%,$(MODE_$(FLAVOUR))) $(LDFLAGS) \
	  $(LINK) -o $@ $(OBJECTS) $(LIBS)
	$(said)

$(ETCD35)/usr/bin/etcd:
	@sh spec/support/servers/etcd35.sh $(ETCD35)

$(BUILD)/lua: spec/support/programs/lua_host.c
	$(call say,$@)
	$(Q)$(CC) $(BASE_FLAGS) $(MODE_$(FLAVOUR)) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) \
	  $(LDFLAGS) -rdynamic -o $@ $< $(shell $(PKG_CONFIG) --libs $(LUA_PACKAGE)) -lm
	$(said)

# A program of its own, the same for all flavours and versions.
$(SCRIPTED): $(wildcard spec/support/servers/scripted_*.[ch])
	$(call say,$@)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -pthread $(shell $(PKG_CONFIG) --cflags grpc) \
	  $(CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LDFLAGS) -o $@ $(filter %.c,$^) \
	  $(shell $(PKG_CONFIG) --libs-only-L grpc) -lgrpc -lgpr -lpthread
	$(said)

$(BUILD)/obj/%.o: src/%.c | $(PROTO).h
	$(call say,$(MODULE))
	$(Q)$(COMPILE) $(WARNINGS) -o $@ $<

$(BUILD)/obj/etcd.pb-c.o: $(PROTO).c
	$(call say,$(MODULE))
	$(Q)$(COMPILE) -o $@ $<

$(PROTO).c $(PROTO).h &: src/etcd/etcd.proto
	@mkdir -p $(@D)
	$(Q)$(PROTOC_C) --proto_path=$(<D) --c_out=$(@D) $(<F)

SIM_COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -Isrc $(CPPFLAGS) $(CFLAGS) $(WARNINGS) \
  -MMD -MP -c

$(SIM): $(SIM_OBJECTS)
	$(call say,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^
	$(said)

build/sim/%.o: src/%.c
	$(call say,$(SIM))
	$(Q)$(SIM_COMPILE) -o $@ $<

build/sim/%.o: spec/sim/%.c
	$(call say,$(SIM))
	$(Q)$(SIM_COMPILE) -o $@ $<

-include $(OBJECTS:.o=.d) $(SIM_OBJECTS:.o=.d)
