/* L1 metadata: what every call of ours tells etcd beside its message. */
#include "metadata.h"

void el_metadata_send(grpc_op *op, grpc_metadata *md) {
  md->key = grpc_slice_from_static_string("hasleader");
  md->value = grpc_slice_from_static_string("true");
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  op->data.send_initial_metadata.count = 1;
  op->data.send_initial_metadata.metadata = md;
}
