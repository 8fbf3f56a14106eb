/* The calls that go through scripted_server, and the orders for them. The caller of each function
 * except scripted_serve must hold scripted_mu. */
#ifndef SCRIPTED_CALLS_H
#define SCRIPTED_CALLS_H

#include <pthread.h>
#include <stdint.h>

enum {
  BEFORE = 'b',
  AFTER = 'a',
  NEVER = 'n',
  LATE = 'l',
  HELD = 'h',
  FORGED = 'f',
  EXTENDED = 'e',
  REPLACED = 'r',
  OMITTED = 'o',
  PASS = 0
};

typedef struct order {
  char when; /* one of the constants above */
  int status;
  char text[256];
} order;

typedef struct method {
  char name[32];
  int calls;
  int64_t arrived_us; /* when a client's last message came (CLOCK_MONOTONIC) */
  int times; /* number of calls to which |order| still applies; -1: all */
  order order;
  order heard; /* the last error of etcd itself for this method */
} method;

extern pthread_mutex_t scripted_mu;

method *scripted_method(const char *name);

/* Ends the orders of all methods: later calls are forwarded unchanged. */
void scripted_pass(void);

/* Ends the running calls of |m| with the status and the text of |o|. */
void scripted_break(const method *m, const order *o);

/* Sends etcd the late calls of |m|. When etcd has answered them, prints their number. */
void scripted_deliver(const method *m);

/* Returns the number of answers to |m| that are held back. */
int scripted_count_held(const method *m);

/* Sends the clients the answers to |m| that were held back. */
void scripted_tell(const method *m);

/* Sends the content of the file |path| as one more message of etcd on the running calls of |m|.
 * Returns the number of these calls. */
int scripted_push(const method *m, const char *path);

/* Starts to serve in front of |etcd| ("host:port"), with at most |max_streams| streams on each
 * connection, and prints "port N". */
void scripted_serve(const char *etcd, int max_streams);

#endif
