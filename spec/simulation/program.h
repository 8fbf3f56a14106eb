/* simulation program: what runs in a client process: a client of etcdlock, made anew after each
 * close or crash, and its users, which take locks, hold them, write, and release them. */
#ifndef SIMULATION_PROGRAM_H
#define SIMULATION_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fiber.h"
#include "lock/client.h"
#include "lock/lock.h"

enum {
  NAMES_MAX = 4,
  USERS_MAX = 4,    /* of one program */
  PROGRAMS_MAX = 3, /* process 0 to 2 */
  ENDPOINTS_MAX = 3,
  HANDOFF_MS = 50 /* handoff_time */
};

typedef struct program program;

/* What a user asks for. */
typedef struct wish {
  el_mode mode;
  int names[NAMES_MAX]; /* more than one for a multi-lock */
  int n_names;
  int permits;
  bool try_once;
  int64_t timeout_ms; /* negative: none */
  int64_t max_hold_ms, linger_ms;
} wish;

typedef enum user_state {
  USER_IDLE,
  USER_WAITS,
  USER_HOLDS, /* it believes so, unless el_lock_hold says otherwise */
  USER_RELEASES
} user_state;

/* One coroutine of a program, with at most one lock at a time. */
typedef struct user {
  int id; /* in its program */
  program *in;
  user_state state;
  wish wish;
  el_lock *lock;
  int64_t token, lease; /* while it holds */
  bool is_downgraded;
  int64_t joined_us; /* when the present acquisition began */
  bool saw_other;    /* since then another has wanted or had the lock */
  int64_t
      stopped_us; /* |stopped_us| of the program at the begin of the present call */
  int64_t
      freed_us; /* since when nothing of others is in its way; 0: something is */
  int64_t granted_us;
  /* until when its hold was known to be proven, by the world's clock */
  int64_t proven_until_us;
  int64_t gone_us; /* when a key of its hold was gone; 0: it was not */
  bool waits_lost; /* it waits for the end of its hold */
  bool is_delayed; /* its hold has expired, and its lock delay is recorded */
} user;

struct program {
  process process;
  el_client *client; /* NULL: none */
  int generation;    /* grows with each client; 0: the program has ended */
  int64_t begun_us;  /* when it made the present one */
  user users[USERS_MAX];
  int n_users;
  bool is_closing, has_crashed;
  int64_t
      delayed_until_us; /* until the lock delay of its last lost hold is over */
  int64_t closing_stopped_us; /* |stopped_us| when its client began to close */
  int64_t stopped_us;         /* for how long it was stopped so far */
  int64_t lock_delay_ms;      /* of its clients; 0: none */
  int lingering;              /* per mille of acquisitions that linger */
  const char *endpoints[ENDPOINTS_MAX];
  bool has_user; /* the client logs in with a password */
  int n_endpoints;
  int64_t ttl_ms, linger_max_ms;
  int handoff; /* holds by one key */
  bool
      is_lua_taken; /* by a fiber that runs or blocks: only one does at a time */
  bool
      wants_to_close; /* its main fiber is to close the client and make another */
  int n_running;      /* users that have not ended */
};

/* Which modes the users of a history take. */
typedef enum kinds {
  KINDS_LOCK,
  KINDS_READ_WRITE,
  KINDS_PERMIT,
  KINDS_MULTI
} kinds;

/* How the programs of the present history behave. */
typedef struct behaviour {
  kinds kinds;
  int n_names;
  int64_t think_us, hold_us; /* the longest pause, the longest hold */
  int trying, timing_out, max_holding, writing,
      downgrading; /* per mille of acquisitions; the last two: of uses of a hold */
  int64_t end_us; /* when users begin no new acquisition */
} behaviour;

extern behaviour programs_behave;
extern program programs[PROGRAMS_MAX];
extern int n_programs;

/* Starts the program |id|, whose fields draw_program in history.c has set. */
void program_start(int id);

/* The program is killed: its connections are gone. Unless |end_us| has passed, it makes a new
 * client later. */
void program_crash(program *of);

/* The program closes its client and, unless |end_us| has passed, makes a new one. */
void program_close(program *of);

/* The program is stopped by SIGSTOP until |until_us|. */
void program_stop(program *of, int64_t until_us);

bool program_has_ended(const program *of);

/* Tells, by the clock of the running fiber, whether |of| holds its lock. |left_us|: for how long
 * the hold is proven. */
bool user_holds(user *of, int64_t *left_us);

#endif
