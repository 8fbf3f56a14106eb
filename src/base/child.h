/* child: a child process in a process group of its own, and job control of the terminal
 * for it. For the command etcdlock. */
#ifndef ETCDLOCK_BASE_CHILD_H
#define ETCDLOCK_BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Starts |argv| with the variables |env| in a new process group, whose id is the child's
 * pid. If |is_foreground|, the group becomes the foreground group of the controlling
 * terminal. The child ignores the signals in |ignored| and no other, and blocks those in
 * |blocked| and no other. The kernel kills it when the calling thread ends. From now on
 * this process ignores SIGTTOU: it may write to the terminal, and change the foreground
 * group, from the background.
 * Returns the pid, or a negative errno. @thread lua */
pid_t el_child_start(char *const argv[], char *const env[],
                     const sigset_t *ignored, const sigset_t *blocked,
                     bool is_foreground);

/* Returns the foreground group of the controlling terminal; -1: there is no terminal.
 * @thread lua */
pid_t el_terminal_group(void);

/* Makes |group| the foreground group of the controlling terminal, if there is one.
 * @thread lua */
void el_terminal_set_group(pid_t group);

/* Stops this process (|is_group|: its whole process group) as Ctrl-Z does by default.
 * Returns after SIGCONT, with true; or at once with false, if the kernel does not stop
 * the process because no shell could continue it. @thread lua */
bool el_job_stop(bool is_group);

#endif
