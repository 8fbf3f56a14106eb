/* L1 metadata: what every call of ours tells etcd beside its message. */
#ifndef ETCDLOCK_METADATA_H
#define ETCDLOCK_METADATA_H

#include <grpc/grpc.h>

/* Makes |op| send the metadata "hasleader: true" (rpctypes/md.go): a member
 * that is cut off from the quorum then refuses at once, and ends streams,
 * instead of going quiet. |md| must live until the batch completes.
 * @thread io */
void el_metadata_send(grpc_op *op, grpc_metadata *md);

#endif
