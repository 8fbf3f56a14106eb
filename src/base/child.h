/* child: a child process in its own process group, and job control of the terminal. `etcdlock run`
 * starts its command with this module. */
#ifndef ETCDLOCK_BASE_CHILD_H
#define ETCDLOCK_BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* el_child_start starts |argv| with the environment |env| in a new process group, whose ID is the
 * child's pid. If |is_foreground|, the group becomes the foreground group of the controlling
 * terminal. The child ignores exactly the signals in |ignored| and blocks exactly those in
 * |blocked|. When the calling thread ends, the kernel kills the child. From this call on, this
 * process adopts the command's orphans, and ignores SIGTTOU, so that it can write to the terminal
 * and set the terminal's group from the background. Returns the pid, or a negative errno value.
 * @thread lua */
pid_t el_child_start(char *const argv[], char *const env[],
                     const sigset_t *ignored, const sigset_t *blocked,
                     bool is_foreground);

/* el_terminal_group returns the foreground group of the controlling terminal;
 * -1 if there is no terminal. @thread lua */
pid_t el_terminal_group(void);

/* el_terminal_set_group makes |group| the foreground group of the controlling
 * terminal, if there is one. @thread lua */
void el_terminal_set_group(pid_t group);

/* el_job_stop stops this process, or its whole process group if |is_group|, as Ctrl-Z does by
 * default. Returns true after SIGCONT has continued the process. Returns false at once if the
 * kernel does not stop the process: if its group is orphaned, no shell could continue it.
 * @thread lua */
bool el_job_stop(bool is_group);

#endif
