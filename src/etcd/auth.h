/* auth: authentication. Calls of etcd/ that need a right are sent by el_auth_call, so that they
 * carry a token if etcd requires one.
 *
 * A token is valid at one member only, which has it in memory: it expires, is lost when the member
 * restarts, and is unknown to other members. Changes of the auth store end it too. So when etcd
 * refuses a call because of its token, one new token is requested for all, and the call is sent
 * again. (It was refused, so that is safe.)
 */
#ifndef ETCDLOCK_ETCD_AUTH_H
#define ETCDLOCK_ETCD_AUTH_H

#include "net/call.h"

/* el_auth is the authentication of one client: its user or token, and the calls that wait for a
 * token. */
typedef struct el_auth el_auth;

/* el_auth_new authenticates as |user| with |password|, which it takes over and wipes at the end; or
 * uses |token|, which is copied and never renewed; or, if all are NULL, does nothing. @thread io */
el_auth *el_auth_new(el_channel *ch, el_timers *timers, char *user,
                     char *password, const char *token);

/* el_auth_stop fails each call and stream that waits for a token with `closed`. Nothing is sent
 * from now on. @thread io */
void el_auth_stop(el_auth *auth);

/* el_auth_free stops and frees |auth|. @thread io */
void el_auth_free(el_auth *auth);

/* el_auth_call does the same as el_call_start, with a token, which may have to be requested first.
 * After el_auth_stop, |done| may be called before el_auth_call returns. @thread io */
void el_auth_call(el_auth *auth, const el_call_request *request,
                  el_call_done done, void *arg);

/* el_token_wait waits until a stream may be opened; embedded in its owner. A stream without a token
 * would not be refused if there is a client certificate: etcd would take its name for the user. */
typedef struct el_token_wait el_token_wait;
struct el_token_wait {
  void (*done)(el_token_wait *wait, const el_error *err);
  bool is_waiting; /* set by auth.c; zero to begin with */
  STAILQ_ENTRY(el_token_wait) link;
};

/* el_auth_is_ready returns whether a stream may be opened now. @thread io */
bool el_auth_is_ready(const el_auth *auth);

/* el_auth_await_token calls wait->done, later, when a stream may be opened (code EL_OK), or with
 * the error that prevents a token. After el_auth_stop it is not called. @thread io */
void el_auth_await_token(el_auth *auth, el_token_wait *wait);

/* el_auth_cancel_wait ends |wait| without a call of done. Harmless if it is not waiting.
 * @thread io */
void el_auth_cancel_wait(el_auth *auth, el_token_wait *wait);

/* el_auth_report handles |err|, with which a stream or a watch ended: if the token is invalid, it
 * requests a new one. @thread io */
void el_auth_report(el_auth *auth, const el_error *err);

/* el_auth_channel returns the channel on which calls are sent. @thread io */
el_channel *el_auth_channel(const el_auth *auth);

#endif
