/* gate: forbids a gRPC channel to begin attempts to connect. */
#ifndef ETCDLOCK_NET_GATE_H
#define ETCDLOCK_NET_GATE_H

#include <grpc/grpc.h>
#include <stdbool.h>

/* The type that GRPC_ARG_SOCKET_MUTATOR has. */
typedef struct grpc_socket_mutator el_gate;

/* Returns an open gate. @thread io */
el_gate *el_gate_new(void);

/* Returns the argument by which a channel, when it is created, gets |gate|. The argument
 * is valid as long as |gate|. @thread io */
grpc_arg el_gate_arg(el_gate *gate);

/* el_gate_close makes each attempt to connect that begins from now on fail, before it has a
 * connection. @thread io */
void el_gate_close(el_gate *gate);

/* Returns whether an attempt that began before the gate was closed may be under way. The
 * attempts of a channel follow one another, so there is none after the gate has made one
 * fail. @thread io */
bool el_gate_may_be_connecting(const el_gate *gate);

/* Gives |gate| up; its channel may still use it. @thread io */
void el_gate_unref(el_gate *gate);

#endif
