/* Random changes of the messages of etcd. The caller of each function must hold scripted_mu. */
#ifndef SCRIPTED_MUTATION_H
#define SCRIPTED_MUTATION_H

#include <grpc/grpc.h>

/* From now on |percent| of the messages are changed. |seed| determines the random numbers. */
void scripted_mutate(unsigned long seed, int percent);

/* Returns the number of messages that have been changed. */
int scripted_count_mutated(void);

/* Takes ownership of |message|. Returns the message to send: the same bytes, or changed ones. A
 * message may be exchanged for an earlier message of the same |kind| only. */
grpc_byte_buffer *scripted_mutation(grpc_byte_buffer *message,
                                    const char *kind);

#endif
