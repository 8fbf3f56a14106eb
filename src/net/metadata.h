/* metadata: what every call of ours tells etcd beside its message. */
#ifndef ETCDLOCK_NET_METADATA_H
#define ETCDLOCK_NET_METADATA_H

#include <grpc/grpc.h>
#include <stdbool.h>

/* What one call sends; embedded in the call, because the batch points to it. */
typedef struct el_metadata {
  size_t n;
  grpc_metadata list[2];
} el_metadata;

/* "hasleader: true" (rpctypes/md.go), if |wants_leader|: a member that is cut off
 * from the quorum then refuses at once, and ends streams, instead of going quiet. And
 * "token" (rpctypes/metadatafields.go), unless |token| is NULL. @thread io */
void el_metadata_init(el_metadata *md, bool wants_leader, const char *token);

/* After the batch has completed. @thread io */
void el_metadata_destroy(el_metadata *md);

/* Makes |op| send |md|. @thread io */
void el_metadata_send(grpc_op *op, el_metadata *md);

#endif
