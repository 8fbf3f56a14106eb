/* sim stream: the one watch stream of a peer. Messages come in order, or the
 * stream breaks and every watch is created anew. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "world.h"

enum { WATCHES_MAX = 512, STREAM_MAX = 256 };

/* Instead of the owner of one key. */
enum {
  WATCH_PERMITS = 0, /* all keys of the semaphore */
  WATCH_BELOW = -1   /* all keys below the name */
};

/* A watch that the store has created. */
typedef struct watch {
  uint32_t id; /* 0: none */
  int entry;   /* of the sim_peer */
  int key_id;
  int64_t owner; /* of the key */
} watch;

typedef struct stream {
  uint32_t epoch; /* counts the breaks */
  bool is_broken; /* and not open again yet */
  watch watches[WATCHES_MAX];
  int n_watches;
  watch_message waiting[STREAM_MAX]; /* on their way, a ring */
  int first, n_waiting;
  int64_t last_at_ms;
} stream;

void stream_init(stream *line);

/* The peer asks for a watch. */
void stream_watch(world *wd, int peer, const watch *what);

/* The peer has one that it kept from before, and knows the key until |rev|: what has
 * happened since is told, in its time. False: there is none. */
bool stream_resume(world *wd, int peer, const watch *what, int64_t rev);

/* It isn't interested any more. */
void stream_unwatch(world *wd, int peer, uint32_t id);

/* The stream breaks: the peer will open it and all its watches again. */
void stream_break(world *wd, int peer);

/* A key has changed: tells everybody who watches it. */
void stream_on_change(world *wd, const change *what);

#endif
