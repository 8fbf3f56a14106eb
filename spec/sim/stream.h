/* sim stream: the watch stream of a peer. Messages come in order, or the stream breaks and each
 * watch is created again. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "world.h"

enum { WATCHES_MAX = 512, STREAM_MAX = 256 };

/* In place of the lease in one key. */
enum {
  WATCH_PERMITS = 0, /* all keys of the semaphore */
  WATCH_BELOW = -1   /* all keys below the name */
};

/* A watch that the store has created. */
typedef struct watch {
  uint32_t id; /* 0: none */
  int entry;   /* of the sim_peer */
  int key_id;
  int64_t owner; /* the lease in the key */
} watch;

typedef struct stream {
  uint32_t epoch; /* counts the breaks */
  bool is_broken; /* and not opened again yet */
  watch watches[WATCHES_MAX];
  int n_watches;
  watch_message waiting[STREAM_MAX]; /* in flight; a ring */
  int first, n_waiting;
  int64_t last_at_ms;
} stream;

void stream_init(stream *line);

/* Creates a watch of the peer. */
void stream_watch(world *wd, int peer, const watch *what);

/* Uses a watch that the peer has kept, and that has reported changes of the key until |rev|; later
 * changes follow as messages. False: there is none. */
bool stream_resume(world *wd, int peer, const watch *what, int64_t rev);

/* Ends a watch of the peer, or keeps it for later. */
void stream_unwatch(world *wd, int peer, uint32_t id);

/* Breaks the stream: the peer opens it and all its watches again. */
void stream_break(world *wd, int peer);

/* A key has changed: sends a message to each of its watches. */
void stream_on_change(world *wd, const change *what);

#endif
