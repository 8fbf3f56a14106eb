/* gate: forbids a gRPC channel to begin attempts to connect. gRPC shows each new socket to
 * a "socket mutator" before it connects the socket. If the mutator returns false, the attempt
 * fails. */
#include "net/gate.h"

#include <grpc/support/sync.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"

/* gRPC documents GRPC_ARG_SOCKET_MUTATOR, but installs no header with this type. The
 * first three functions are those of gRPC 1.0. A later version has added the fourth, which
 * replaces the first unless it is NULL. */
typedef struct mutator_vtable {
  bool (*mutate_fd)(int fd, el_gate *gate);
  int (*compare)(el_gate *a, el_gate *b);
  void (*destroy)(el_gate *gate);
  bool (*mutate_fd_2)(const void *info, el_gate *gate);
} mutator_vtable;

struct grpc_socket_mutator {
  const mutator_vtable *vtable; /* gRPC reads these two */
  gpr_refcount refs;
  atomic_bool closed;
  atomic_bool has_attempt; /* that may have a connection; may have ended */
};

static bool let_pass(int fd, el_gate *gate) {
  (void)fd;
  atomic_store(&gate->has_attempt, true); /* before the gate is seen open */
  if (!atomic_load(&gate->closed)) return true;
  atomic_store(&gate->has_attempt, false);
  return false;
}

static int compare(el_gate *a, el_gate *b) { return (a > b) - (a < b); }

static void destroy(el_gate *gate) { free(gate); }

el_gate *el_gate_new(void) {
  static const mutator_vtable vtable = {let_pass, compare, destroy, NULL};
  el_gate *gate = el_alloc(sizeof *gate);
  gate->vtable = &vtable;
  gpr_ref_init(&gate->refs, 1);
  return gate;
}

static void *copy_arg(void *gate) {
  gpr_ref(&((el_gate *)gate)->refs);
  return gate;
}

static void destroy_arg(void *gate) { el_gate_unref(gate); }

static int compare_args(void *a, void *b) { return compare(a, b); }

grpc_arg el_gate_arg(el_gate *gate) {
  static const grpc_arg_pointer_vtable vtable = {copy_arg, destroy_arg,
                                                 compare_args};
  return (grpc_arg){.type = GRPC_ARG_POINTER,
                    .key = (char *)GRPC_ARG_SOCKET_MUTATOR,
                    .value.pointer = {gate, &vtable}};
}

void el_gate_close(el_gate *gate) { atomic_store(&gate->closed, true); }

bool el_gate_may_be_connecting(const el_gate *gate) {
  return atomic_load(&gate->has_attempt);
}

void el_gate_unref(el_gate *gate) {
  if (gpr_unref(&gate->refs)) destroy(gate);
}
