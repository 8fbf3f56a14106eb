/* auth: who we are to etcd. Every call of etcd/ that needs a right goes through here, so
 * that it carries a token when etcd wants one.
 *
 * A token belongs to one member and lives in its memory: it expires, dies with
 * a restart, and is worth nothing to the next member; changes of the auth
 * store end it too. So it is renewed when a call is told so, with one request
 * at a time, and the call is sent again (it was refused, so that is safe).
 */
#ifndef ETCDLOCK_ETCD_AUTH_H
#define ETCDLOCK_ETCD_AUTH_H

#include "net/call.h"

typedef struct el_auth el_auth;

/* As |user| with |password|, which are taken over and wiped at the end; or with
 * a |token| that somebody else renews, which is copied; or, all NULL, as
 * nobody. @thread io */
el_auth *el_auth_new(el_channel *ch, el_timers *timers, char *user,
                     char *password, const char *token);

/* Starts nothing any more: those that wait for a token hear that the client is
 * closed. @thread io */
void el_auth_stop(el_auth *auth);

/* @thread io */
void el_auth_free(el_auth *auth);

/* As el_call_start, with a token; may authenticate first. @thread io */
void el_auth_call(el_auth *auth, const el_call_request *request,
                  el_call_done done, void *arg);

/* Somebody who is about to open a stream. One that carries no token would be
 * somebody else's: that of the client certificate's owner. */
typedef struct el_token_wait el_token_wait;
struct el_token_wait {
  void (*done)(el_token_wait *wait, const el_error *err);
  bool waiting;
  STAILQ_ENTRY(el_token_wait) link;
};

/* May a stream be opened now? @thread io */
bool el_auth_is_ready(const el_auth *auth);

/* Calls wait->done, later, when streams may be opened (code EL_OK), or with the
 * reason for which there is no token to be had. @thread io */
void el_auth_await(el_auth *auth, el_token_wait *wait);

/* Calls it no more; harmless if it isn't waiting. @thread io */
void el_auth_forget(el_auth *auth, el_token_wait *wait);

/* A stream ended, or a watch was refused, for |err|: if it was the token, a
 * new one is asked for. @thread io */
void el_auth_note(el_auth *auth, const el_error *err);

/* Where the calls go. @thread io */
el_channel *el_auth_channel(const el_auth *auth);

#endif
