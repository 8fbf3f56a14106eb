/* An etcd that answers what a spec wants: a proxy in front of a real one.
 *
 *   scripted_server HOST:PORT    the real one
 *
 * It prints "port N", where it serves on 127.0.0.1, and then answers every line
 * of its input with one of its own. METHOD is the last part of a name, "Txn":
 *
 *   answer METHOD TIMES WHEN STATUS TEXT
 *       TIMES calls (-1: all) end with this gRPC status. WHEN: "before" they
 *       reach etcd; "after" etcd has carried them out, and its answer is thrown
 *       away; "never" is the same, but no answer comes at all; "late": etcd is
 *       asked when that is ordered; "held": its answer is passed on when that is
 *       ordered, whatever STATUS says; in the next three, TEXT names a file,
 *       whose bytes go into etcd's first message. "forged": they replace all but the
 *       header; "replaced": they replace the message; "extended": they follow it.
 *   deliver METHOD               asks etcd what was late: "N" such calls, when it
 *                                has answered them
 *   held METHOD                  how many answers are held now: "N"
 *   tell METHOD                  passes them on
 *   push METHOD FILE             sends the bytes of FILE as one more message of etcd
 *                                on the calls that run now: "N" of them
 *   break METHOD STATUS TEXT     so do those that run now
 *   pass                         what comes from now on is forwarded again
 *   mutate SEED PERCENT          so many of etcd's messages are changed at random
 *   mutated                      how many were: "N"
 *   calls METHOD                 how many have come: "N"
 *   out METHOD                   how many run now, without an answer: "N"
 *   heard METHOD                 how etcd itself has last refused one: "STATUS
 *                                TEXT"; "0" if it never has
 *
 * Messages are forwarded as they are, both ways, until the call ends; unary
 * calls and streams need no distinction. Ends with its input.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scripted_calls.h"
#include "scripted_mutation.h"

static bool obey_mutate(const char *line) {
  unsigned long seed;
  int percent;
  if (sscanf(line, "mutate %lu %d", &seed, &percent) != 2) return false;
  scripted_mutate(seed, percent);
  puts("0");
  return true;
}

static void obey(const char *line) {
  char verb[16] = "", name[32] = "", when[16] = "after";
  int times = 0;
  order o = {.when = AFTER};
  method *m;
  if (obey_mutate(line)) return;
  sscanf(line, "%15s %31s", verb, name);
  m = scripted_method(name);
  if (strcmp(verb, "answer") == 0 &&
      sscanf(line, "%*s %*s %d %15s %d %255[^\n]", &times, when, &o.status,
             o.text) >= 3) {
    o.when = when[0];
    m->order = o;
    m->times = times;
    puts("0");
  } else if (strcmp(verb, "break") == 0 &&
             sscanf(line, "%*s %*s %d %255[^\n]", &o.status, o.text) >= 1) {
    scripted_break(m, &o);
    puts("0");
  } else if (strcmp(verb, "push") == 0 &&
             sscanf(line, "%*s %*s %255[^\n]", o.text) == 1) {
    printf("%d\n", scripted_push(m, o.text));
  } else if (strcmp(verb, "pass") == 0) {
    scripted_pass();
    puts("0");
  } else if (strcmp(verb, "mutated") == 0) {
    printf("%d\n", scripted_count_mutated());
  } else if (strcmp(verb, "deliver") == 0) {
    scripted_deliver(m);
  } else if (strcmp(verb, "held") == 0) {
    printf("%d\n", scripted_count_held(m));
  } else if (strcmp(verb, "tell") == 0) {
    scripted_tell(m);
    puts("0");
  } else if (strcmp(verb, "calls") == 0) {
    printf("%d\n", m->calls);
  } else if (strcmp(verb, "out") == 0) {
    printf("%d\n", scripted_count_out(m));
  } else if (strcmp(verb, "heard") == 0) {
    printf("%d %s\n", m->heard.status, m->heard.text);
  } else {
    fprintf(stderr, "scripted_server: what is %s", line);
    exit(EXIT_FAILURE);
  }
}

int main(int argc, char **argv) {
  char line[512];
  if (argc != 2) {
    fprintf(stderr, "usage: %s HOST:PORT\n", argv[0]);
    return EXIT_FAILURE;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  scripted_serve(argv[1]);
  while (fgets(line, sizeof line, stdin) != NULL) {
    pthread_mutex_lock(&scripted_mu);
    obey(line);
    pthread_mutex_unlock(&scripted_mu);
  }
  _exit(EXIT_SUCCESS); /* calls may still run */
}
