/* metadata: what every call of ours tells etcd beside its message. */
#include "net/metadata.h"

void el_metadata_init(el_metadata *md, const char *token) {
  md->list[0].key = grpc_slice_from_static_string("hasleader");
  md->list[0].value = grpc_slice_from_static_string("true");
  md->n = 1;
  if (token != NULL) {
    md->list[1].key = grpc_slice_from_static_string("token");
    md->list[1].value = grpc_slice_from_copied_string(token);
    md->n = 2;
  }
}

void el_metadata_destroy(el_metadata *md) {
  if (md->n == 2) {
    grpc_slice_unref(md->list[1].value);
  }
}

void el_metadata_send(grpc_op *op, el_metadata *md) {
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  op->data.send_initial_metadata.count = md->n;
  op->data.send_initial_metadata.metadata = md->list;
}
