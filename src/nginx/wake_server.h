/* wake_server: ends waits through a unix-domain socket, for a host whose only way to wait
 * is a connection (nginx's cosockets).
 *
 * A thread of this process listens on the socket. One wait works like this:
 *
 *   host                                  server
 *   el_wake_server_begin_wait(id)
 *   connects                              greets the new connection with one byte
 *   sends |id| as 16 hex digits
 *   el_wake_server_receive                reads |id|; the connection belongs to wait |id|
 *   reads a byte                          sends one byte when |id| is pushed
 *   el_wake_server_end_wait(id)
 *
 * The byte carries no data: it tells the host to look again at the object that it waits for. If
 * |id| was pushed before it was received, the server sends the byte at once. The connection keeps
 * |id| for its next waits: to get another byte, in this wait or a later one, the host calls
 * el_wake_server_request_byte. If the connection ends before el_wake_server_end_wait, the waiter is
 * gone, and the server calls |on_disconnect| for each object that is bound to the wait.
 *
 * The server closes connections from other processes. It also closes new connections while no
 * descriptor is free. The server's thread runs only when a connection begins or ends. Normally the
 * host's own thread receives the ids, and the thread that pushes an id sends the byte: this costs
 * less than to wake the server's thread.
 *
 * Measured: a wait ends 8 us (median) after its event, and 500 waits use no CPU. Requests that poll
 * each millisecond are 0.5 ms to 1.1 ms late, and 500 of them use a fifth of a processor.
 */
#ifndef ETCDLOCK_NGINX_WAKE_SERVER_H
#define ETCDLOCK_NGINX_WAKE_SERVER_H

#include "base/completion.h"
#include "base/error.h"
#include "nginx/wake_socket.h"

/* el_wake_server is one server with its thread; a mutex of its own guards it. */
typedef struct el_wake_server el_wake_server;

/* el_wake_on_disconnect is called once for each |arg| that is bound to a wait whose connection has
 * ended or has received another id; for all waits, in el_wake_server_disconnect. It runs without
 * server->mu on the server's thread, or in el_wake_server_receive or el_wake_server_disconnect. */
typedef void (*el_wake_on_disconnect)(void *arg);

/* el_wake_server_start opens the socket below |dir| (NULL: see wake_socket.h) and starts
 * the thread with all signals blocked. Returns NULL and sets |err| (context, nomem) on
 * failure. @thread lua */
el_wake_server *el_wake_server_start(const char *dir,
                                     el_wake_on_disconnect on_disconnect,
                                     el_error *err);

/* el_wake_server_stop ends and joins the thread. From then on the server accepts no connection, and
 * does not notice that a connection ends. @thread lua */
void el_wake_server_stop(el_wake_server *server);

/* el_wake_server_disconnect closes the socket and all connections of a stopped server and
 * calls |on_disconnect| for all bound objects. Ids may still be pushed.
 * @thread any @locks server->mu */
void el_wake_server_disconnect(el_wake_server *server);

/* el_wake_server_free frees a disconnected server; no id may be pushed any more. NULL is
 * ignored. @thread any */
void el_wake_server_free(el_wake_server *server);

/* el_wake_server_wake returns the wake to which the ids of the server's waits are pushed. A
 * push locks server->mu. The wake lives as long as the server. @thread any */
el_wake *el_wake_server_wake(el_wake_server *server);

/* el_wake_server_socket returns the socket to connect to, which is open until
 * el_wake_server_disconnect. @thread lua */
const el_wake_socket *el_wake_server_socket(const el_wake_server *server);

/* el_wake_server_begin_wait begins wait |id|, an unused number. The wait ends with
 * el_wake_server_end_wait, _unbind or _merge, or when its connection ends or receives another id.
 * @thread lua @locks server->mu */
void el_wake_server_begin_wait(el_wake_server *server, uint64_t id);

/* el_wake_server_bind binds |arg| to wait |id|. It returns false, and does nothing, if |arg| is
 * bound to the wait already or if the wait has ended. @thread lua @locks server->mu */
bool el_wake_server_bind(el_wake_server *server, uint64_t id, void *arg);

/* el_wake_server_unbind undoes el_wake_server_bind, and returns whether |arg| was bound to wait
 * |id|. If no object is bound to the wait any more, it ends the wait and sets |*is_unanswered| to
 * what el_wake_server_end_wait returns. If the wait goes on, or had ended before, |*is_unanswered|
 * is false. @thread lua @locks server->mu */
bool el_wake_server_unbind(el_wake_server *server, uint64_t id, const void *arg,
                           bool *is_unanswered);

/* el_wake_server_merge binds all objects of wait |from| to wait |into| instead, ends wait |from|,
 * and sets |*is_unanswered| to what el_wake_server_end_wait returns for it. It returns false, and
 * binds nothing, if one of the two waits has ended. @thread lua @locks server->mu */
bool el_wake_server_merge(el_wake_server *server, uint64_t from, uint64_t into,
                          bool *is_unanswered);

/* el_wake_server_receive reads the ids that were sent over connections. The host calls it
 * after each send, until el_wake_server_disconnect. @thread any @locks server->mu */
void el_wake_server_receive(el_wake_server *server);

/* el_wake_server_request_byte has the server send one byte over the connection of wait |id| when
 * |id| is pushed, or at once if it was pushed already. The host must have read all earlier bytes.
 * @thread lua @locks server->mu */
void el_wake_server_request_byte(el_wake_server *server, uint64_t id);

/* el_wake_server_end_wait ends wait |id|, and calls |unbound| for each bound object, under
 * server->mu. The host may then close the connection, or use it for another wait. It returns true
 * if the host need not read a byte: |id| was received, and since then, or since the last
 * el_wake_server_request_byte, no byte was sent or will be. @thread lua @locks server->mu */
bool el_wake_server_end_wait(el_wake_server *server, uint64_t id,
                             void (*unbound)(void *arg));

#endif
