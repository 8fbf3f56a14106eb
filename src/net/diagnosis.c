/* diagnosis: finds out why connections to a member fail, on a thread of its own. */
#include "net/diagnosis.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/completion.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/times.h"

/* The only event of the completion |ended|. */
enum { ENDED = 1 };

struct el_diagnosis {
  el_command command; /* first: posted with the result */
  pthread_t thread;
  int stop_fd;
  /* set after the diagnosis, before the thread posts |command| */
  el_completion ended;
  /* guards the next two; the thread also holds it while it posts */
  pthread_mutex_t mu;
  /* the thread has posted |command|; also true if the loop was closed and did not take it */
  bool is_posted;
  /* el_diagnosis_stop was called, so the loop may be freed. If the thread has not posted yet, it
   * does not post, but frees this struct. */
  bool is_abandoned;
  el_loop *loop;
  el_tls *tls;
  char *address;
  bool is_unix;  /* |address| names a Unix socket */
  bool is_found; /* |err| is the cause */
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
  free(diagnosis->address);
  free(diagnosis);
}

static void run_done(el_command *command) {
  el_diagnosis *diagnosis = (el_diagnosis *)command;
  /* The thread ends soon, because it has posted. */
  pthread_join(diagnosis->thread, NULL);
  diagnosis->done(diagnosis->arg, diagnosis->is_found, &diagnosis->err);
  free_diagnosis(diagnosis);
}

/* ---- the thread ---- */

static void *run_diagnosis(void *arg) {
  el_diagnosis *diagnosis = arg;
  bool is_abandoned;
  pthread_setname_np(pthread_self(), "etcdlock-tls");
  el_c_locale_enter(); /* so that the resolver's error text is English */
  diagnosis->is_found =
      el_tls_diagnose(diagnosis->tls, diagnosis->address, diagnosis->is_unix,
                      EL_DIAGNOSIS_MS, diagnosis->stop_fd, &diagnosis->err);
  pthread_mutex_lock(&diagnosis->mu);
  is_abandoned = diagnosis->is_abandoned;
  if (!is_abandoned) {
    diagnosis->is_posted = true;
    el_completion_complete(&diagnosis->ended, ENDED);
    el_loop_post(diagnosis->loop, &diagnosis->command);
  }
  pthread_mutex_unlock(&diagnosis->mu);
  if (is_abandoned) {
    free_diagnosis(diagnosis);
  }
  return NULL;
}

/* ---- start and end ---- */

el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *address, bool is_unix,
                                 el_diagnosis_done done, void *arg) {
  el_diagnosis *diagnosis = el_alloc(sizeof *diagnosis);
  diagnosis->command.run = run_done;
  diagnosis->stop_fd = eventfd(0, EFD_CLOEXEC);
  el_completion_init(&diagnosis->ended);
  pthread_mutex_init(&diagnosis->mu, NULL);
  diagnosis->loop = loop;
  diagnosis->tls = tls != NULL ? el_tls_ref(tls) : NULL;
  diagnosis->address = el_strndup(address, strlen(address));
  diagnosis->is_unix = is_unix;
  diagnosis->done = done;
  diagnosis->arg = arg;
  if (diagnosis->stop_fd < 0 ||
      el_thread_start(&diagnosis->thread, run_diagnosis, diagnosis) != 0) {
    free_diagnosis(diagnosis);
    return NULL;
  }
  return diagnosis;
}

void el_diagnosis_cancel(el_diagnosis *diagnosis) {
  eventfd_write(diagnosis->stop_fd, 1);
}

void el_diagnosis_stop(el_diagnosis *diagnosis, int64_t until_ms) {
  int64_t left_ms = until_ms - el_now_ms();
  bool is_posted;
  el_completion_wait(&diagnosis->ended, ENDED, left_ms > 0 ? left_ms : 0);
  pthread_mutex_lock(&diagnosis->mu);
  diagnosis->is_abandoned = true;
  is_posted = diagnosis->is_posted;
  pthread_mutex_unlock(&diagnosis->mu);
  if (is_posted) {
    pthread_join(diagnosis->thread, NULL);
    free_diagnosis(diagnosis);
  } else {
    pthread_detach(diagnosis->thread); /* the thread frees |diagnosis| */
  }
}
