/* wake_socket: a unix-domain socket that listens and leaves no file behind.
 *
 * It is made in a private directory, unlinked at once and reached through /proc/self/fd. Where there is no /proc it keeps its name.
 */
#ifndef ETCDLOCK_NGINX_WAKE_SOCKET_H
#define ETCDLOCK_NGINX_WAKE_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

#include "base/error.h"

typedef struct el_wake_socket {
  int fd;
  int path_fd; /* keeps the unlinked socket reachable; -1: it has a name */
  char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* to connect to */
} el_wake_socket;

/* Its private directory is made below |parent|; NULL: below TMPDIR or, if that can't
 * be, /tmp. False and |err| (context, nomem) if there is none to be had.
 * @thread lua */
bool el_wake_socket_open(el_wake_socket *at, const char *parent, el_error *err);

/* The number of the descriptor that this process makes next, unless another
 * thread is faster; -1: none. @thread any */
int el_wake_socket_next_fd(const el_wake_socket *at);

/* Keeps this process's end of a connection to |at| from the programs that it
 * starts. |next_fd| is the above, from just before it was connected.
 * @thread any */
void el_wake_socket_seal(const el_wake_socket *at, int next_fd);

/* Closes what is open (not -1) of |at|, and removes its name. @thread lua */
void el_wake_socket_close(el_wake_socket *at);

#endif
