/* sim stream: the watch stream of a peer. It delivers messages in order. If the stream breaks, the
 * peer creates each watch again. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "world.h"

enum { WATCHES_MAX = 512, STREAM_MAX = 256 };

/* Values of |owner| for a watch of several keys. */
enum {
  WATCH_PERMITS = 0, /* all permits of the name */
  WATCH_BELOW = -1   /* all keys below the name */
};

/* A watch of one key or, with WATCH_PERMITS or WATCH_BELOW as |owner|, of several keys. */
typedef struct watch {
  uint32_t id; /* 0: none */
  int entry;   /* index of the entry in the peer */
  int key_id;
  int64_t owner; /* the lease in the key */
} watch;

typedef struct stream {
  uint32_t epoch; /* number of breaks so far */
  bool is_broken; /* broken, and not opened again yet */
  watch watches[WATCHES_MAX];
  int n_watches;
  watch_message waiting[STREAM_MAX]; /* a ring of the messages in flight */
  int first, n_waiting;
  int64_t last_at_ms;
} stream;

void stream_init(stream *line);

/* Creates a watch of the peer. */
void stream_watch(world *wd, int peer, const watch *what);

/* Uses a watch that the peer has kept since an earlier wait and that has reported all changes of
 * the key until |rev|. Later changes follow as messages. Returns false if the peer has kept no
 * watch, or if the kept watch has already reported a change after |rev|. */
bool stream_resume(world *wd, int peer, const watch *what, int64_t rev);

/* Ends the watch |id| of the peer. */
void stream_unwatch(world *wd, int peer, uint32_t id);

/* Breaks the stream. The peer opens it and creates all its watches again. */
void stream_break(world *wd, int peer);

/* A key has changed: sends a message to each of its watches. */
void stream_on_change(world *wd, const change *what);

#endif
