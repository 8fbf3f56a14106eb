/* metadata: what every call of ours tells etcd beside its message. */
#include "net/metadata.h"

static void add(el_metadata *md, const char *key, grpc_slice value) {
  grpc_metadata *pair = &md->list[md->n++];
  pair->key = grpc_slice_from_static_string(key);
  pair->value = value;
}

void el_metadata_init(el_metadata *md, bool wants_leader, const char *token) {
  md->n = 0;
  if (wants_leader) {
    add(md, "hasleader", grpc_slice_from_static_string("true"));
  }
  if (token != NULL) {
    add(md, "token", grpc_slice_from_copied_string(token));
  }
}

void el_metadata_destroy(el_metadata *md) {
  for (size_t i = 0; i < md->n; i++) {
    grpc_slice_unref(md->list[i].value);
  }
}

void el_metadata_send(grpc_op *op, el_metadata *md) {
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  op->data.send_initial_metadata.count = md->n;
  op->data.send_initial_metadata.metadata = md->list;
}
