/* diagnosis: asks OpenSSL why a connection fails, on a thread of its own. */
#include "net/diagnosis.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/completion.h"

/* The one event of its completion. */
enum { ENDED = 1 };

enum {
  PATIENCE_MS = 1000,
  /* How long to wait for a thread that is told to stop: it is there at once,
   * unless it is asking for a name. */
  STOP_MS = 300
};

struct el_diagnosis {
  el_command command; /* first */
  pthread_t thread;
  int stop_fd;
  el_completion ended; /* the thread has said its last word */
  pthread_mutex_t mu;  /* guards the next two; its end is told under it */
  bool posted;         /* or would have, had the loop been open */
  bool abandoned;      /* the loop may be gone: the thread frees this */
  el_loop *loop;
  el_tls *tls;
  char *host_port;
  bool found;
  el_error err;
  el_diagnosis_done done;
  void *arg;
};

static void free_diagnosis(el_diagnosis *diagnosis) {
  close(diagnosis->stop_fd);
  el_completion_destroy(&diagnosis->ended);
  pthread_mutex_destroy(&diagnosis->mu);
  if (diagnosis->tls != NULL) {
    el_tls_unref(diagnosis->tls);
  }
  free(diagnosis->host_port);
  free(diagnosis);
}

static void run_done(el_command *command) {
  el_diagnosis *diagnosis = (el_diagnosis *)command;
  pthread_join(diagnosis->thread, NULL); /* this was its last word */
  diagnosis->done(diagnosis->arg, diagnosis->found, &diagnosis->err);
  free_diagnosis(diagnosis);
}

/* ---- its thread ---- */

static void *ask(void *arg) {
  el_diagnosis *diagnosis = arg;
  bool abandoned;
  pthread_setname_np(pthread_self(), "etcdlock-tls");
  diagnosis->found =
      el_tls_explain(diagnosis->tls, diagnosis->host_port, PATIENCE_MS,
                     diagnosis->stop_fd, &diagnosis->err);
  pthread_mutex_lock(&diagnosis->mu);
  abandoned = diagnosis->abandoned;
  if (!abandoned) {
    diagnosis->posted = true;
    el_completion_complete(&diagnosis->ended, ENDED);
    el_loop_post(diagnosis->loop, &diagnosis->command);
  }
  pthread_mutex_unlock(&diagnosis->mu);
  if (abandoned) {
    free_diagnosis(diagnosis);
  }
  return NULL;
}

/* ---- start and end ---- */

el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *host_port, el_diagnosis_done done,
                                 void *arg) {
  el_diagnosis *diagnosis = el_alloc(sizeof *diagnosis);
  diagnosis->command.run = run_done;
  diagnosis->stop_fd = eventfd(0, EFD_CLOEXEC);
  el_completion_init(&diagnosis->ended);
  pthread_mutex_init(&diagnosis->mu, NULL);
  diagnosis->loop = loop;
  diagnosis->tls = tls != NULL ? el_tls_ref(tls) : NULL;
  diagnosis->host_port = el_strndup(host_port, strlen(host_port));
  diagnosis->done = done;
  diagnosis->arg = arg;
  if (diagnosis->stop_fd < 0 ||
      el_thread_start(&diagnosis->thread, ask, diagnosis) != 0) {
    free_diagnosis(diagnosis);
    return NULL;
  }
  return diagnosis;
}

void el_diagnosis_stop(el_diagnosis *diagnosis) {
  bool ended;
  eventfd_write(diagnosis->stop_fd, 1);
  el_completion_wait(&diagnosis->ended, ENDED, STOP_MS);
  pthread_mutex_lock(&diagnosis->mu);
  diagnosis->abandoned = true;
  ended = diagnosis->posted;
  pthread_mutex_unlock(&diagnosis->mu);
  if (ended) {
    pthread_join(diagnosis->thread, NULL);
    free_diagnosis(diagnosis);
  } else {
    pthread_detach(diagnosis->thread); /* it frees what is its own */
  }
}
