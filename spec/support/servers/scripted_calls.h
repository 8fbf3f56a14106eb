/* The calls that go through scripted_server, and what is ordered about them. All but
 * scripted_serve wants the mutex to be held.
 */
#ifndef SCRIPTED_CALLS_H
#define SCRIPTED_CALLS_H

#include <pthread.h>

enum {
  BEFORE = 'b',
  AFTER = 'a',
  NEVER = 'n',
  LATE = 'l',
  HELD = 'h',
  FORGED = 'f',
  EXTENDED = 'e',
  REPLACED = 'r',
  PASS = 0
};

typedef struct order {
  char when; /* one of the above */
  int status;
  char text[256];
} order;

typedef struct method {
  char name[32];
  int calls;
  int times; /* that the order still holds; -1: for ever */
  order order;
  order heard; /* etcd's own */
} method;

extern pthread_mutex_t scripted_mu;

method *scripted_method(const char *name);

/* What comes from now on is forwarded. */
void scripted_pass(void);

/* How many calls of |m| run now? */
int scripted_count_out(const method *m);

/* Calls of |m| that run now end as |o| says. */
void scripted_break(const method *m, const order *o);

/* Asks etcd what was late, and prints how many there were when it has answered. */
void scripted_deliver(const method *m);

/* How many answers are held? */
int scripted_count_held(const method *m);

/* Passes on the answers that were held. */
void scripted_tell(const method *m);

/* Sends the content of the file |path| as one more message of etcd on the calls of |m| that
 * run. Returns how many there are. */
int scripted_push(const method *m, const char *path);

/* Serves in front of |etcd| ("host:port"), and prints "port N". */
void scripted_serve(const char *etcd);

#endif
