/* A library for LD_PRELOAD that makes gRPC core refuse some batches of etcdlock. It is linked with
 * gRPC core, because dlsym does not search the libraries of a Lua module.
 *
 *   REFUSED_BATCH="COUNT OP"    batches of COUNT operations, of which the first is OP
 *                               (grpc_op_type, a number), fail with
 *                               GRPC_CALL_ERROR_INVALID_METADATA */
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <stdio.h>
#include <stdlib.h>

typedef grpc_call_error start_batch(grpc_call *call, const grpc_op *ops,
                                    size_t n, void *tag, void *reserved);

grpc_call_error grpc_call_start_batch(grpc_call *call, const grpc_op *ops,
                                      size_t n, void *tag, void *reserved) {
  start_batch *real =
      __extension__(start_batch *) dlsym(RTLD_NEXT, "grpc_call_start_batch");
  const char *refused = getenv("REFUSED_BATCH");
  size_t count;
  int op;
  if (refused != NULL && sscanf(refused, "%zu %d", &count, &op) == 2 &&
      n == count && n > 0 && (int)ops[0].op == op) {
    return GRPC_CALL_ERROR_INVALID_METADATA;
  }
  return real(call, ops, n, tag, reserved);
}
