# etcdlock: build, test, install. `make help` lists the targets of this file, `make help-dev` those
# of .ci/dev.mk: single checks, measurements, packages.
#
#   LUA_VERSION=5.1|5.2|5.3|5.4|5.5|jit   which Lua to build for
#   SPEC=spec/lock                    run only these spec files or directories
#   JOBS=5                            number of spec files that run at the same time
#   V=1                               show the commands, and each test
#   TESTING=1                         build with assertions, and with the functions of
#                                     src/lua/test.c, which only specs use
#   SANITIZE=asan|tsan                build as with TESTING=1, and with this sanitizer

LUA_VERSION ?= 5.4
PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c

ifeq ($(filter $(LUA_VERSION),5.1 5.2 5.3 5.4 5.5 jit),)
$(error LUA_VERSION=$(LUA_VERSION): wanted 5.1, 5.2, 5.3, 5.4, 5.5 or jit)
endif
LUA := $(if $(filter jit,$(LUA_VERSION)),luajit,lua$(LUA_VERSION))
LUA_PACKAGE := $(LUA)
LUA_ABI := $(LUA_VERSION:jit=5.1)

# make builds the targets of its command line one after the other. Each target builds its files in
# parallel.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif
PARALLEL = $(MAKE) --no-print-directory $(if $(V),,--silent) \
  $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs=$(shell nproc))

LUADIR = $(PREFIX)/share/lua/$(LUA_ABI)
LIBDIR = $(PREFIX)/lib/lua/$(LUA_ABI)
BINDIR = $(PREFIX)/bin
MANDIR = $(PREFIX)/share/man
COMPLETIONDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
TYPEDIR = $(PREFIX)/share/etcdlock/types

VERSION := $(shell sed -n 's/.*_VERSION = "\(.*\)".*/\1/p' lua/etcdlock/init.lua)

# ---- what is built ------------------------------------------------------------

FLAVOUR := $(or $(SANITIZE:%=-%),$(TESTING:%=-test))
BUILD := build/$(LUA_VERSION)$(FLAVOUR)
MODULE := $(BUILD)/etcdlock/core.so
PROTO := build/proto/etcd.pb-c
SOURCES := $(filter-out src/lua/executable.c $(if $(FLAVOUR),,src/lua/test.c),$(wildcard src/*/*.c))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/etcd.pb-c.o
UNBUILT = $(filter-out $(wildcard $(OBJECTS)),$(OBJECTS))

supported = $(foreach f,$(1),$(shell \
  $(CC) -Werror $(f) -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(f)))

LUA_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(LUA_PACKAGE))
LIB_CFLAGS = $(shell $(PKG_CONFIG) --cflags grpc libprotobuf-c libssl)
LIBS = $(shell $(PKG_CONFIG) --libs-only-L grpc) -lgrpc -lgpr \
  $(shell $(PKG_CONFIG) --libs libprotobuf-c libssl libcrypto) -lpthread

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2 $(if $(filter true,$(CI)),-Werror)
HARDENING = -fstack-protector-strong -fno-delete-null-pointer-checks -fno-strict-overflow \
  $(call supported,-fstack-clash-protection -fcf-protection=full -ftrivial-auto-var-init=zero)
# If CPPFLAGS or CFLAGS already choose a level of _FORTIFY_SOURCE, as distributions do, that level
# stays.
FORTIFY := $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,\
  -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)

# -ffile-prefix-map: the module must not contain the path of the directory in which it was built.
FLAGS_ := -DNDEBUG $(FORTIFY) '-ffile-prefix-map=$(CURDIR)=.'
FLAGS_-test := -DEL_TEST $(FORTIFY)
FLAGS_-asan := -DEL_TEST -fno-omit-frame-pointer -fstrict-overflow \
  -fsanitize=address,undefined -fno-sanitize-recover=undefined
FLAGS_-tsan := -DEL_TEST -fno-omit-frame-pointer -fsanitize=thread
FLAGS_-gcov := -DEL_TEST --coverage -fprofile-update=atomic

# make expands BASE_FLAGS once, and only if it compiles a file, because the expansion runs the
# compiler and pkg-config.
BASE_FLAGS = $(eval BASE_FLAGS := -std=c11 -D_GNU_SOURCE -fPIC -pthread -fvisibility=hidden \
  -Isrc -Ibuild/proto $$(HARDENING) $$(LUA_CFLAGS) $$(LIB_CFLAGS))$(BASE_FLAGS)
COMPILE = $(CC) $(BASE_FLAGS) $(FLAGS_$(FLAVOUR)) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c
# -z nodelete: the module stays mapped when Lua closes its state, because threads of the module may
# still run then.
LINK := -shared -Wl,-z,nodelete -Wl,-z,relro,-z,now -Wl,-z,noexecstack \
  -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,--version-script=src/exports.map

# ---- targets ----------------------------------------------------------------

.DEFAULT_GOAL := all
.PHONY: help all executable deps build-deps test lint asan tsan bench demo demo-openresty doc install \
  install-executable uninstall dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile
	@echo "'make help-dev' lists single checks, measurements and packages."

all: ## build the module for LUA_VERSION (5.1, 5.2, 5.3, 5.4, 5.5 or jit)
	$(if $(UNBUILT),@echo 'Compiling $(words $(UNBUILT)) C files for $(LUA) (usually less than a minute):')
	+@$(PARALLEL) $(MODULE)

executable: ## build/executable/etcdlock: the command in one file, which needs no Lua and no gRPC
	@sh .ci/deps.sh executable 5.4
	+@$(PARALLEL) LUA_VERSION=5.4 TESTING= SANITIZE= $(EXECUTABLE)

deps: ## install the Debian packages that the tests need and that are missing
	@sh .ci/deps.sh dev $(LUA_VERSION)

build-deps: ## install the Debian packages that the build needs, and etcd
	@sh .ci/deps.sh run $(LUA_VERSION)

demo: build-deps all ## two shops sell 300 items to 500 customers, without and with a lock
	@$(RUN_ENV) $(LUA) examples/flash_sale.lua

demo-openresty: ## the same in nginx
	@sh .ci/deps.sh openresty jit
	@$(MAKE) --no-print-directory LUA_VERSION=jit all run-demo-openresty

test: deps ## the simulator, the model, then all specs against a real etcd
	@$(MAKE) --no-print-directory sim HISTORIES=2500 FROM=commit
	@$(MAKE) --no-print-directory model
	@$(MAKE) --no-print-directory TESTING=1 suite

lint: deps ## format, static checks, layer rules
	@status=0; \
	clang-format --dry-run -Werror $(wildcard src/*/*.[ch] spec/simulation/*.[ch] spec/model/*.c spec/fuzz/*.[ch] \
	  spec/support/*/*.c) || status=1; \
	luacheck -q --no-color lua spec bench examples doc bin/etcdlock || status=1; \
	$(LUA) spec/lint/layers.lua . || status=1; \
	exit $$status

asan: deps ## histories and the specs under the address, undefined and leak sanitizers
	@$(MAKE) --no-print-directory SANITIZE=asan sim HISTORIES=2500 FROM=commit
	@$(MAKE) --no-print-directory SANITIZE=asan suite

tsan: deps ## the specs under the thread sanitizer
	@$(MAKE) --no-print-directory SANITIZE=tsan suite

bench: deps ## compare etcdlock with other clients, in half an hour: bench/README.md
	@sh bench/prepare.sh gnuplot go java redis wrk
	@$(MAKE) --no-print-directory all executable
	@$(MAKE) --no-print-directory LUA_VERSION=jit all
	@$(RUN_ENV) ROWS='$(ROWS)' ENTRANTS='$(ENTRANTS)' $(LUA) bench/run.lua

doc: ## make doc/reference.md, and build/types for an editor, from the docstrings
	@$(RUN_ENV) $(LUA) doc/generate/run.lua
	@$(call make_types,build/types)

dist: ## pack build/dist/etcdlock-VERSION.tar.gz and its rockspec
	@sh .ci/dist.sh $(VERSION)

clean: ## remove everything that was built
	rm -rf build

# ---- the executable -----------------------------------------------------------

# The executable contains the core, Lua, the Lua modules, and the static archives of Debian's
# libraries. It loads only OpenSSL, zlib and the C library from the machine, which thus get the
# security updates of the machine.
EXECUTABLE := build/executable/etcdlock
EMBEDDED := build/executable/embedded
NOTICES := build/executable/NOTICES
SHARED := ssl crypto z m
NOT_EMBEDDED := $(SHARED) dl pthread rt
archive = $(shell $(CC) -print-file-name=lib$(1).a)
CXX_ARCHIVES = $(foreach l,stdc++ gcc gcc_eh,$(call archive,$l))
# The list has libraries that OpenSSL needs, and that may have no archive here. libuv-static.pc has
# -luv_a in Debian 12, -l:libuv.a in Debian 13.
ARCHIVES = $(eval ARCHIVES := $$(filter /%,$$(foreach l,$$(filter-out $(NOT_EMBEDDED),$$(sort \
  $$(patsubst :lib%.a,%,$$(patsubst -l%,%,$$(filter -l%,$$(shell \
  $(PKG_CONFIG) --static --libs grpc re2 libprotobuf-c lua5.4-luv lua5.4 libuv-static)))))),\
  $$(call archive,$$l))))$(ARCHIVES)
EMBEDDED_LUA := bin/etcdlock $(wildcard lua/etcdlock/*.lua lua/etcdlock/*/*.lua)
FOREIGN_LUA = $(shell lua5.4 -E -e 'for _, name in ipairs { "argparse", "dkjson" } do \
  print((assert(package.searchpath(name, package.path)))) end')

# ---- install ------------------------------------------------------------------

# The installed command contains the absolute paths of its interpreter and of the module. The
# installed completions contain the absolute path of the command. So neither searches the current
# directory.
absolute = $(if $(filter /%,$(1)),$(1),$(CURDIR)/$(1))
FINAL_LUADIR = "$(call absolute,$(LUADIR))
FINAL_LIBDIR = "$(call absolute,$(LIBDIR))
FINAL_BINDIR = $(call absolute,$(BINDIR))
# A binary rock may be installed in any directory tree. Its command therefore finds the module by
# the path of the command itself.
ifneq ($(IS_ROCK),)
FINAL_LUADIR = tree .. "/share/lua/$(LUA_ABI)
FINAL_LIBDIR = tree .. "/lib/lua/$(LUA_ABI)
FIND_TREE = local tree = ((arg[0]:find "^/" and "" or os.getenv "PWD" .. "/") .. arg[0]):match "^(.*)/" .. "/.."\n
endif
INTERPRETER = $(filter /%,$(shell command -v '$(LUA)') $(LUA))
FOR_COMMAND = 1s|.*|\#!$(firstword $(or $(INTERPRETER),$(error There is no $(LUA) in an \
  absolute directory of PATH. Name the interpreter of the command: LUA=/usr/bin/$(LUA))))|; \
  s|^-- INSTALLED.*|$(FIND_TREE)package.path = $(FINAL_LUADIR)/?.lua;" .. \
  $(FINAL_LUADIR)/?/init.lua;" .. package.path\npackage.cpath = $(FINAL_LIBDIR)/?.so;" .. package.cpath|
FOR_COMPLETION = $(if $(IS_ROCK),,s|\(_etcdlock_program[= ]\)etcdlock|\1'$(FINAL_BINDIR)/etcdlock'|)

# The manual page of the command, and its completions for the shells.
define INSTALL_PAGES
	@install -D -m 644 /dev/null '$(DESTDIR)$(COMPLETIONDIR)/etcdlock'
	@sed "$(FOR_COMPLETION)" bin/etcdlock.bash >'$(DESTDIR)$(COMPLETIONDIR)/etcdlock'
	@install -D -m 644 /dev/null '$(DESTDIR)$(ZSHDIR)/_etcdlock'
	@sed "$(FOR_COMPLETION)" bin/etcdlock.zsh >'$(DESTDIR)$(ZSHDIR)/_etcdlock'
	@install -D -m 644 /dev/null '$(DESTDIR)$(FISHDIR)/etcdlock.fish'
	@sed "$(FOR_COMPLETION)" bin/etcdlock.fish >'$(DESTDIR)$(FISHDIR)/etcdlock.fish'
	@install -D -m 644 /dev/null '$(DESTDIR)$(MANDIR)/man1/etcdlock.1'
	@$(LUA) doc/generate/man.lua >'$(DESTDIR)$(MANDIR)/man1/etcdlock.1'
endef

# $(call unfit,DIRECTORY) returns the characters of DIRECTORY that would end a word in the shell, in
# sed or in Lua's package.path.
unfit = $(strip $(foreach c,& ; ' " ` \ | ?,$(findstring $(c),$(1))))
DIRECTORIES = PREFIX DESTDIR LUADIR LIBDIR BINDIR MANDIR COMPLETIONDIR ZSHDIR FISHDIR TYPEDIR \
  CURDIR INTERPRETER
check_directories = $(foreach d,$(DIRECTORIES),$(if $(call unfit,$($(d))),$(error \
  $(d)=$($(d)): this has $(call unfit,$($(d))) in it; choose a directory without that)))

# A shell command that prints the variables to set if Lua or the shell does not search the
# directories of the installation. `make install` does not run it with DESTDIR or for a rock,
# because then the files are not in their final directories yet.
ADVICE = for set in \
  "LUA_PATH|$$($(LUA) -e 'print(package.path)')|;|$(call absolute,$(LUADIR))/?.lua|;$(call absolute,$(LUADIR))/?/init.lua;\$${LUA_PATH:-;}" \
  "LUA_CPATH|$$($(LUA) -e 'print(package.cpath)')|;|$(call absolute,$(LIBDIR))/?.so|;\$${LUA_CPATH:-;}" \
  "PATH|$$PATH|:|$(FINAL_BINDIR)|:\$$PATH"; do \
  IFS='|'; set -f; set -- $$set; unset IFS; \
  case "$$3$$2$$3" in *"$$3$$4$$3"*) ;; *) echo "  export $$1=\"$$4$$5\"" ;; esac; \
  done | sed '1s/^/To use it, set:\n/'

# An absolute path, for commands that run in a subdirectory of the checkout.
DESTINATION_LUA = $(call absolute,$(DESTDIR)$(LUADIR))

# $(call make_types,DIRECTORY) is a shell command that writes the annotations for LuaLS there.
make_types = umask 022 && mkdir -p '$(1)/etcdlock' '$(1)/resty' && \
  $(RUN_ENV) $(LUA) doc/generate/run.lua '$(1)'

install: all ## copy to PREFIX (and DESTDIR)
	$(check_directories)@:
	@cd lua && find . -name '*.lua' -exec install -D -m 644 {} '$(DESTINATION_LUA)/{}' \;
	@$(call make_types,$(DESTDIR)$(TYPEDIR))
	@install -D -m 755 $(MODULE) '$(DESTDIR)$(LIBDIR)/etcdlock/core.so'
	@install -d '$(DESTDIR)$(BINDIR)'
	@sed '$(FOR_COMMAND)' bin/etcdlock >'$(DESTDIR)$(BINDIR)/etcdlock'
	@chmod 755 '$(DESTDIR)$(BINDIR)/etcdlock'
	$(INSTALL_PAGES)
	@echo 'Installed in $(DESTDIR)$(LUADIR), $(DESTDIR)$(LIBDIR) and $(DESTDIR)$(BINDIR).'
	@$(if $(DESTDIR)$(IS_ROCK),:,$(ADVICE))

install-executable: ## copy what `make executable` has built, with its manual page and completions
	$(check_directories)@:
	@install -D -m 755 $(EXECUTABLE) '$(DESTDIR)$(BINDIR)/etcdlock'
	$(INSTALL_PAGES)
	@echo 'Installed in $(DESTDIR)$(BINDIR).'

uninstall: ## remove what `make install` with the same PREFIX and LUA_VERSION has copied
	$(check_directories)@:
	@cd lua && find . -name '*.lua' -exec rm -f '$(DESTINATION_LUA)/{}' \;
	@rm -rf '$(DESTDIR)$(TYPEDIR)' '$(DESTDIR)$(LIBDIR)/etcdlock'
	@rm -f '$(DESTDIR)$(BINDIR)/etcdlock' '$(DESTDIR)$(MANDIR)/man1/etcdlock.1' \
	  '$(DESTDIR)$(COMPLETIONDIR)/etcdlock' '$(DESTDIR)$(ZSHDIR)/_etcdlock' \
	  '$(DESTDIR)$(FISHDIR)/etcdlock.fish'
	@cd lua && find . -mindepth 1 -depth -type d -exec sh -c 'rmdir "$$1" 2>/dev/null || true' - \
	  '$(DESTINATION_LUA)/{}' \;
	@cd '$(DESTDIR)$(PREFIX)' && rmdir --ignore-fail-on-non-empty share/etcdlock \
	  share/lua/$(LUA_ABI) share/lua lib/lua/$(LUA_ABI) lib/lua share/man/man1 share/man \
	  share/bash-completion/completions share/bash-completion share/zsh/site-functions share/zsh \
	  share/fish/vendor_completions.d share/fish 2>/dev/null || true
	@echo 'Removed from $(DESTDIR)$(LUADIR), $(DESTDIR)$(LIBDIR) and $(DESTDIR)$(BINDIR).'

include .ci/dev.mk

# ---- rules --------------------------------------------------------------------

Q := $(if $(V),,@)
show = @mkdir -p $(@D)$(if $(V),, && echo '  $(1) $@')

$(MODULE): $(OBJECTS) src/exports.map
	$(call show,LINK)
	$(Q)$(CC) $(CFLAGS) $(filter -fsanitize=% --coverage,$(FLAGS_$(FLAVOUR))) $(LDFLAGS) $(LINK) -o $@ \
	  $(OBJECTS) $(LIBS)

$(BUILD)/obj/%.o: src/%.c | $(PROTO).h
	$(call show,CC  )
	$(Q)$(COMPILE) $(WARNINGS) -o $@ $<

$(BUILD)/obj/etcd.pb-c.o: $(PROTO).c
	$(call show,CC  )
	$(Q)$(COMPILE) -o $@ $<

# The C++ compiler links, because gRPC and absl are written in C++. --gc-sections leaves out what
# nothing uses.
$(EXECUTABLE): $(OBJECTS) $(BUILD)/obj/lua/executable.o $(EMBEDDED).o
	$(call show,LINK)
	$(Q)$(CXX) $(CFLAGS) $(LDFLAGS) -pie -static-libstdc++ -static-libgcc -o $@ $^ \
	  -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed -s \
	  -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(SHARED:%=-l%) -lpthread

$(EMBEDDED).o: $(EMBEDDED).c
	$(call show,CC  )
	$(Q)$(COMPILE) -o $@ $<

$(EMBEDDED).c: .ci/embed.lua $(NOTICES) $(EMBEDDED_LUA)
	$(call show,GEN )
	$(Q)lua5.4 $^ $(FOREIGN_LUA) >$@.new && mv $@.new $@

$(NOTICES): .ci/notices.sh LICENSE
	$(call show,GEN )
	$(Q)sh $< $(ARCHIVES) $(CXX_ARCHIVES) $(FOREIGN_LUA) /usr/include/uthash.h >$@.new
	$(Q)mv $@.new $@

$(PROTO).c $(PROTO).h &: src/etcd/etcd.proto
	$(call show,GEN )
	$(Q)$(PROTOC_C) --proto_path=$(<D) --c_out=$(@D) $(<F)

-include $(OBJECTS:.o=.d) $(BUILD)/obj/lua/executable.d
