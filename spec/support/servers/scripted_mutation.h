/* Random changes of the messages of etcd. All wants the mutex of scripted_calls.h to be held. */
#ifndef SCRIPTED_MUTATION_H
#define SCRIPTED_MUTATION_H

#include <grpc/grpc.h>

/* From now on |percent| of the messages are changed, with the random numbers that follow |seed|. */
void scripted_mutate(unsigned long seed, int percent);

/* How many have been changed? */
int scripted_count_mutated(void);

/* |message|, which is taken over, or a changed one in its place. |kind| tells which messages it may
 * be exchanged with. */
grpc_byte_buffer *scripted_mutation(grpc_byte_buffer *message,
                                    const char *kind);

#endif
