/* simulation fiber: the threads of the simulated processes, which take turns on one thread of the
 * system. A fiber runs until it blocks or yields; then another fiber runs, or the next event. If
 * several fibers can run, one is drawn at random.
 *
 * threads.c puts fibers in the place of pthreads, so the product's own threads are fibers. They
 * take turns at mutexes and condition variables, not at atomics: for those there are the thread
 * sanitizer's runs, `make tsan` and `make stress SANITIZE=tsan`. */
#ifndef SIMULATION_FIBER_H
#define SIMULATION_FIBER_H

#include <stdbool.h>
#include <stdint.h>

/* One client process: its clock, and whether it runs. */
typedef struct process {
  int id;
  int client; /* number of its present client, different for each client of a history */
  int64_t clock_ahead_us;   /* offset of its clock from the world's clock */
  int64_t clock_ppm;        /* how much faster its clock runs, in millionths */
  int64_t stopped_until_us; /* SIGSTOP: its fibers do not run before */
  int preempted; /* per mille of locks of a mutex before which others may run */
} process;

typedef struct fiber fiber;

/* Starts a fiber of |of|, which calls |run|(|arg|) later. fiber_join or fiber_detach frees it. */
fiber *fiber_start(process *of, void (*run)(void *arg), void *arg);

/* Returns the fiber that runs; NULL: none. */
fiber *fiber_self(void);

/* Returns the process of the fiber that runs; NULL: none. */
process *process_self(void);

/* Returns the process whose clock the fiber that runs sees; NULL: none. */
const process *process_of_clock(void);

/* Lets the fiber that runs see the clock of |of|; returns the process whose clock it saw. */
const process *process_swap_clock(const process *of);

/* Waits until fiber_wake is called with |on|, or until |until_us| by the world's clock. Returns
 * false in the second case. */
bool fiber_wait(const void *on, int64_t until_us);

/* Lets at most |max| fibers that wait on |on| run. */
void fiber_wake(const void *on, int max);

/* Lets a fiber that can run, drawn at random, run. It may be the same one. */
void fiber_yield(void);

void fiber_sleep(int64_t us);

/* Waits until |of| has ended, and frees it. */
void fiber_join(fiber *of);

/* Lets |of| free itself when it ends. */
void fiber_detach(fiber *of);

/* Runs fibers until none can run now. */
void fibers_run(void);

/* Returns the number of fibers that have not ended. */
int fibers_alive(void);

/* Returns the time that the clock of |of| shows, in microseconds. */
int64_t process_clock_us(const process *of);

/* Returns when, by the world's clock, the clock of |of| shows |shown_us|; now if it has already. */
int64_t process_when_us(const process *of, int64_t shown_us);

#endif
