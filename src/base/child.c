/* child: a child process in its own process group, and job control of the
 * terminal. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/thread.h"

extern char **environ;

/* Returns a descriptor of the controlling terminal, or a negative number if there is none. */
static int open_terminal(void) {
  return open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

pid_t el_terminal_group(void) {
  int terminal = open_terminal();
  pid_t group = -1;
  if (terminal >= 0) {
    group = tcgetpgrp(terminal);
    close(terminal);
  }
  return group;
}

void el_terminal_set_group(pid_t group) {
  int terminal = open_terminal();
  if (terminal >= 0) {
    tcsetpgrp(terminal, group);
    close(terminal);
  }
}

static void reset_signals(const sigset_t *ignored, const sigset_t *blocked) {
  for (int number = 1; number < NSIG; number++) {
    signal(number, sigismember(ignored, number) == 1 ? SIG_IGN : SIG_DFL);
  }
  pthread_sigmask(SIG_SETMASK, blocked, NULL);
}

/* Replaces the program in the forked child by |argv|. Returns only if that fails. All calls in it
 * must be async-signal-safe, because the parent has threads. */
static void exec_command(char *const argv[], char *const env[],
                         const sigset_t *ignored, const sigset_t *blocked,
                         bool is_foreground, pid_t parent) {
  setpgid(0, 0);
  if (is_foreground) {
    el_terminal_set_group(getpid());
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* If the parent ended before prctl, the kernel does not kill this child. */
  if (getppid() != parent) _exit(EXIT_FAILURE);
  reset_signals(ignored, blocked);
  environ = (char **)env;
  execvp(argv[0], argv);
}

pid_t el_child_start(char *const argv[], char *const env[],
                     const sigset_t *ignored, const sigset_t *blocked,
                     bool is_foreground) {
  int report[2]; /* a pipe for the errno of a failed exec */
  int failure = 0;
  ssize_t size;
  sigset_t previous;
  pid_t parent = getpid();
  pid_t pid;
  if (pipe2(report, O_CLOEXEC) != 0) return -errno;
  /* Orphans of the command become children of this process, so that it can reap them. An orphan
   * that is not reaped would remain a member of the command's process group. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGTTOU, SIG_IGN);
  /* No signal handler of this program may run in the child. */
  el_thread_block_signals(&previous);
  pid = fork();
  if (pid == 0) {
    exec_command(argv, env, ignored, blocked, is_foreground, parent);
    failure = errno;
    size = write(report[1], &failure, sizeof failure);
    (void)size;
    _exit(EXIT_FAILURE);
  }
  if (pid < 0) {
    failure = errno;
  }
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  close(report[1]);
  if (pid > 0) {
    do {
      size = read(report[0], &failure, sizeof failure);
    } while (size < 0 && errno == EINTR);
  }
  close(report[0]);
  return failure != 0 ? -failure : pid;
}

bool el_job_stop(bool is_group) {
  struct sigaction previous_action, default_action = {.sa_handler = SIG_DFL};
  sigset_t cont, previous_mask, pending;
  bool was_stopped;
  /* SIGCONT also continues a process that blocks it, and then stays pending. So a pending SIGCONT
   * shows afterwards that the process was stopped. */
  sigemptyset(&cont);
  sigaddset(&cont, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &cont, &previous_mask);
  sigaction(SIGTSTP, &default_action, &previous_action);
  kill(is_group ? 0 : getpid(), SIGTSTP);
  sigpending(&pending);
  was_stopped = sigismember(&pending, SIGCONT) == 1;
  sigaction(SIGTSTP, &previous_action, NULL);
  pthread_sigmask(SIG_SETMASK, &previous_mask, NULL);
  return was_stopped;
}
