/* L1 diagnosis: asks OpenSSL why a connection fails, on a thread of its own. */
#include "diagnosis.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

enum { PATIENCE_MS = 1000 };

struct el_diagnosis {
  el_command command; /* first */
  pthread_mutex_t mu; /* guards abandoned; only the post is made under it */
  bool abandoned;
  el_loop *loop;
  el_tls *tls;
  char *host_port;
  bool found;
  el_error err;
  el_diagnosis_done done;
  void *arg;
};

static void free_diagnosis(el_diagnosis *diagnosis) {
  pthread_mutex_destroy(&diagnosis->mu);
  if (diagnosis->tls != NULL) {
    el_tls_unref(diagnosis->tls);
  }
  free(diagnosis->host_port);
  free(diagnosis);
}

static void run_done(el_command *command) {
  el_diagnosis *diagnosis = (el_diagnosis *)command;
  pthread_mutex_lock(&diagnosis->mu); /* until its thread has let go of it */
  pthread_mutex_unlock(&diagnosis->mu);
  if (!diagnosis->abandoned) {
    diagnosis->done(diagnosis->arg, diagnosis->found, &diagnosis->err);
  }
  free_diagnosis(diagnosis);
}

static void *ask(void *arg) {
  el_diagnosis *diagnosis = arg;
  bool orphan;
  pthread_setname_np(pthread_self(), "etcdlock-tls");
  diagnosis->found = el_tls_diagnose(diagnosis->tls, diagnosis->host_port,
                                     PATIENCE_MS, &diagnosis->err);
  /* An abandoned question's loop may be gone: the two are one step. */
  pthread_mutex_lock(&diagnosis->mu);
  orphan = diagnosis->abandoned ||
           !el_loop_post(diagnosis->loop, &diagnosis->command);
  pthread_mutex_unlock(&diagnosis->mu);
  if (orphan) {
    free_diagnosis(diagnosis);
  }
  return NULL;
}

static int start_thread(el_diagnosis *diagnosis) {
  pthread_t thread;
  sigset_t all, before;
  int rc;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_create(&thread, NULL, ask, diagnosis);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc == 0) {
    pthread_detach(thread);
  }
  return rc;
}

el_diagnosis *el_diagnosis_start(el_loop *loop, el_tls *tls,
                                 const char *host_port, el_diagnosis_done done,
                                 void *arg) {
  el_diagnosis *diagnosis = el_alloc(sizeof *diagnosis);
  diagnosis->command.run = run_done;
  pthread_mutex_init(&diagnosis->mu, NULL);
  diagnosis->loop = loop;
  diagnosis->tls = tls != NULL ? el_tls_ref(tls) : NULL;
  diagnosis->host_port = el_strndup(host_port, strlen(host_port));
  diagnosis->done = done;
  diagnosis->arg = arg;
  if (start_thread(diagnosis) != 0) {
    free_diagnosis(diagnosis);
    return NULL;
  }
  return diagnosis;
}

void el_diagnosis_abandon(el_diagnosis *diagnosis) {
  pthread_mutex_lock(&diagnosis->mu);
  diagnosis->abandoned = true;
  pthread_mutex_unlock(&diagnosis->mu);
}
