/* wake_server: wakes waits through a socket, for hosts whose only way to
 * wait is a connection (nginx's cosockets).
 *
 * A thread of this process listens on a unix-domain socket. The host connects
 * to it, is greeted with a byte, says the number of a wait (16 hex digits), has it
 * heard (el_wake_server_hear), and is sent one byte when the number is pushed, or
 * at once if it was since the last one. The byte says "look again", and no more;
 * who wants another says the number again. A connection that ends while its wait
 * is expected tells that whoever waited is gone. Other processes are turned away,
 * as is everybody while there are no descriptors.
 *
 * Connections may be used again, one wait after the other. The thread is woken by
 * those that come and go only: what they say is read, and what is pushed is told,
 * on the thread that says or pushes it.
 */
#ifndef ETCDLOCK_NGINX_WAKE_SERVER_H
#define ETCDLOCK_NGINX_WAKE_SERVER_H

#include "base/completion.h"
#include "base/error.h"

typedef struct el_wake_server el_wake_server;

/* A connection has ended; |arg|, which was tied to it, is given up. On the server's thread,
 * or on one that hears or hangs up. */
typedef void (*el_wake_gone)(void *arg);

/* Starts the thread, with all signals blocked there. Its socket is made below
 * |dir|, NULL: see wake_socket.h. |gone| is called for all that is tied to a connection
 * that ends. NULL and |err| if there is no socket or no thread to be had. @thread lua */
el_wake_server *el_wake_server_start(const char *dir, el_wake_gone gone,
                                     el_error *err);

/* Joins the thread: nobody is let in any more, and no end is noticed.
 * @thread lua */
void el_wake_server_stop(el_wake_server *server);

/* Closes the socket and the connections of a stopped server; what is still
 * tied is gone. Numbers may still be pushed. @thread lua @locks server->mu */
void el_wake_server_hang_up(el_wake_server *server);

/* Frees one that has hung up; nobody may push any more. NULL is ignored.
 * @thread lua */
void el_wake_server_free(el_wake_server *server);

/* Where the numbers of its waits are pushed, under server->mu; lives as long as
 * the server. @thread any */
el_wake *el_wake_server_wake(el_wake_server *server);

/* Where to connect; till it hangs up. @thread lua */
const char *el_wake_server_path(const el_wake_server *server);

/* For a host whose connections would be inherited by the programs that it starts,
 * and so seem to be there when they have ended: see wake_socket.h.
 * @thread lua */
int el_wake_server_next_fd(const el_wake_server *server);

/* @thread lua */
void el_wake_server_seal(const el_wake_server *server, int next_fd);

/* Wait |id| begins, and ends with its connection or with el_wake_server_taken.
 * @thread lua @locks server->mu */
void el_wake_server_expect(el_wake_server *server, uint64_t id);

/* Ties |arg| to the connection of wait |id|; false: that has ended.
 * @thread lua @locks server->mu */
bool el_wake_server_tie(el_wake_server *server, uint64_t id, void *arg);

/* The reverse; false: it wasn't tied, or its connection has ended.
 * @thread lua @locks server->mu */
bool el_wake_server_untie(el_wake_server *server, uint64_t id, const void *arg);

/* Numbers were said; each is to be followed by this. Not once the server has hung
 * up. @thread any @locks server->mu */
void el_wake_server_hear(el_wake_server *server);

/* Wait |id| is over: its connection may end, or be used for another. |untied| is called, under
 * the mutex, for all that was tied to it. True if the number was said and not answered, and
 * will not be. @thread lua @locks server->mu */
bool el_wake_server_taken(el_wake_server *server, uint64_t id,
                          void (*untied)(void *arg));

#endif
