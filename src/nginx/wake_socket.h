/* wake_socket: a listening unix-domain socket that leaves no file behind.
 *
 * The socket's file is created in a private directory and unlinked at once. nginx connects to the
 * socket through /proc/self/fd. Without /proc the file stays until el_wake_socket_close.
 */
#ifndef ETCDLOCK_NGINX_WAKE_SOCKET_H
#define ETCDLOCK_NGINX_WAKE_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

#include "base/error.h"

/* el_wake_socket is one listening socket. It does not change from el_wake_socket_open to
 * el_wake_socket_close. */
typedef struct el_wake_socket {
  int listen_fd; /* non-blocking; -1: not open */
  int path_fd;   /* O_PATH descriptor of the socket's file; -1: not open */
  char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* to connect to */
} el_wake_socket;

/* el_wake_socket_open creates the private directory below |parent| (NULL: below $TMPDIR
 * or, if that fails, /tmp) and listens in it. Returns false and sets |err| (context,
 * nomem) on failure. @thread lua */
bool el_wake_socket_open(el_wake_socket *ws, const char *parent, el_error *err);

/* el_wake_socket_next_fd returns the number of the descriptor that this process opens
 * next, unless another thread opens one first; -1: the process has no free descriptor.
 * @thread any */
int el_wake_socket_next_fd(const el_wake_socket *ws);

/* el_wake_socket_set_cloexec makes this process's end of a connection to |ws| close-on-exec.
 * Otherwise a program that this process starts would inherit the connection, and the connection
 * would not end with the nginx request that made it. |next_fd| is what el_wake_socket_next_fd
 * returned just before the connect. @thread any */
void el_wake_socket_set_cloexec(const el_wake_socket *ws, int next_fd);

/* el_wake_socket_close closes the descriptors that are not -1, and removes the
 * socket's file and directory if they still exist. @thread lua */
void el_wake_socket_close(el_wake_socket *ws);

#endif
