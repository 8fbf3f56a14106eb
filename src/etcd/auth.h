/* auth: authentication. The files in etcd/ send each call that needs rights with el_auth_call. If
 * etcd requires a token, the call then carries one.
 *
 * All members know a new token. Each keeps it in its own memory: a token that is used at one member
 * expires at the others after 5 minutes, and a member forgets all tokens when it restarts. A change
 * of the auth store may make a token invalid, too. So when etcd refuses calls because of their
 * token, one new token is requested for all of them, and each call is sent again. That is safe,
 * because etcd has not applied a call that it refused.
 *
 * An Authenticate costs etcd the hash of a password, 0.05 s or more of a processor, even if the
 * client has given it up. If many clients repeat what etcd has not answered yet, none ever gets an
 * answer. So a client awaits one Authenticate at a time, for as long as the connection lives, up to
 * EL_AUTHENTICATE_MS. If the client leaves the member meanwhile, it asks the next one after a
 * pause. A call without an answer does not make the token invalid. It may make the client find out
 * whether etcd was wiped or restored (token_check).
 */
#ifndef ETCDLOCK_ETCD_AUTH_H
#define ETCDLOCK_ETCD_AUTH_H

#include "net/call.h"

/* el_auth is the authentication of one client: its user or token, and the calls that wait for a
 * token. */
typedef struct el_auth el_auth;

/* el_authenticate_done is called when an Authenticate has ended, after |took_ms|. @thread io */
typedef void (*el_authenticate_done)(void *arg, int64_t took_ms);

/* el_auth_new returns the authentication of one client. If |user| is not NULL, tokens are requested
 * for |user| with |password|; el_auth takes over both strings and wipes them at the end. Otherwise,
 * if |token| is not NULL, all calls carry |token|, which is copied and never renewed. If both are
 * NULL, calls carry no token. |on_ended| (NULL: none) is called with |arg| after each Authenticate
 * that was sent, until el_auth_stop. @thread io */
el_auth *el_auth_new(el_channel *ch, el_timers *timers, char *user,
                     char *password, const char *token,
                     el_authenticate_done on_ended, void *arg);

/* el_auth_stop fails each call and stream that waits for a token with `closed`. If there is a user,
 * it also makes each later el_auth_call fail, so that nothing is sent any more. @thread io */
void el_auth_stop(el_auth *auth);

/* el_auth_free stops and frees |auth|. @thread io */
void el_auth_free(el_auth *auth);

/* el_auth_call does the same as el_call_start, but if there is a user and no valid token, the call
 * waits until a new token has come. The timeout of |request| includes this wait. After
 * el_auth_stop, |done| may be called before el_auth_call returns. @thread io */
void el_auth_call(el_auth *auth, const el_call_request *request,
                  el_call_done done, void *arg);

/* el_token_wait waits for a token, so that a call can be sent or a stream opened; embedded in its
 * owner. A stream must wait, too: if the client has a certificate, etcd would not refuse a stream
 * without a token, but take the name in the certificate for the user. */
typedef struct el_token_wait el_token_wait;
struct el_token_wait {
  void (*done)(el_token_wait *wait, const el_error *err);
  bool is_waiting; /* set by auth.c; must be zero at first */
  STAILQ_ENTRY(el_token_wait) link;
};

/* el_auth_is_ready returns whether a stream may be opened now. @thread io */
bool el_auth_is_ready(const el_auth *auth);

/* el_auth_await_token calls wait->done later: with code EL_OK when a stream may be opened, or with
 * the error because of which there is no token. A wait that begins after el_auth_stop ends with
 * `closed` in el_auth_free. @thread io */
void el_auth_await_token(el_auth *auth, el_token_wait *wait);

/* el_auth_cancel_wait ends |wait| without a call of wait->done. It does nothing if |wait| is not
 * waiting. @thread io */
void el_auth_cancel_wait(el_auth *auth, el_token_wait *wait);

/* el_auth_has_token tells whether there is a token, valid or not. After el_auth_stop it returns
 * false. @thread io */
bool el_auth_has_token(const el_auth *auth);

/* el_auth_token_number returns the number of the present token; 0: etcd has given none yet.
 * @thread io */
unsigned el_auth_token_number(const el_auth *auth);

/* el_auth_report handles the error |err| with which a stream or a watch ended that carried token
 * number |token_number|. If |err| says that the token is invalid, and no other one has come since,
 * el_auth_report requests a new token. @thread io */
void el_auth_report(el_auth *auth, unsigned token_number, const el_error *err);

/* el_auth_was_answered tells whether etcd has answered an Authenticate, or a read during one.
 * @thread io */
bool el_auth_was_answered(const el_auth *auth);

/* el_auth_explain_wait fills |err| with the reason why there is no valid token. Returns false, and
 * does nothing, if there is one, or none is needed. @thread io */
bool el_auth_explain_wait(const el_auth *auth, el_error *err);

/* el_auth_name_user adds the name of the user to |err|, if |err| says that etcd denies a permission
 * and the client knows the name. @thread io */
void el_auth_name_user(const el_auth *auth, el_error *err);

/* el_auth_set_password takes over |password|, which later Authenticates use. @thread io */
void el_auth_set_password(el_auth *auth, char *password);

/* el_auth_channel returns the channel on which calls are sent. @thread io */
el_channel *el_auth_channel(const el_auth *auth);

#endif
