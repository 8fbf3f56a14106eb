/* An etcd that answers what a spec wants: a proxy in front of a real etcd.
 *
 *   scripted_server HOST:PORT [STREAMS]
 *                                HOST:PORT: the address of the real etcd; STREAMS: how many streams
 *                                a connection may have
 *
 * The program prints "port N", the port of 127.0.0.1 on which it serves. Then it answers each
 * line of its input with one line. METHOD is the last part of a method's name, such as "Txn".
 *
 *   answer METHOD TIMES WHEN STATUS TEXT
 *       Changes the next TIMES calls of METHOD (-1: all). WHEN says how:
 *         "before"    they end with STATUS and TEXT and do not reach etcd
 *         "after"     they end with STATUS and TEXT after etcd has carried them out; etcd's
 *                     answer is discarded
 *         "never"     etcd carries them out, but no answer is sent
 *         "late"      they end with STATUS and TEXT; etcd gets them at "deliver"
 *         "held"      etcd's answer is held back until "tell"; STATUS and TEXT have no effect
 *         "forged"    the bytes of the file TEXT replace all but the header of etcd's first
 *                     message
 *         "replaced"  the bytes of the file TEXT replace etcd's first message
 *         "extended"  the bytes of the file TEXT follow etcd's first message
 *         "omitted"   etcd's first message has no field TEXT, such as "1.3": field 3 of the message
 *                     in field 1
 *   deliver METHOD               sends etcd the late calls; when etcd has answered them,
 *                                prints their number
 *   held METHOD                  prints the number of answers that are held back
 *   tell METHOD                  sends the answers that are held back
 *   push METHOD FILE             sends the bytes of FILE as one more message of etcd on the
 *                                running calls; prints the number of these calls
 *   break METHOD STATUS TEXT     ends the running calls with STATUS and TEXT
 *   pass                         forwards all later calls unchanged
 *   calls METHOD                 prints the number of calls so far
 *   arrived METHOD               prints when the last message of METHOD came from a client, in
 *                                microseconds of CLOCK_MONOTONIC
 *   heard METHOD                 prints "STATUS TEXT", the last error of etcd itself for
 *                                METHOD; "0" if there was none
 *
 * Otherwise messages are forwarded unchanged in both directions until the call ends. Unary calls
 * and streams are treated alike. The program ends at the end of its input. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scripted_calls.h"

static void obey(const char *line) {
  char verb[16] = "", name[32] = "", when[16] = "after";
  int times = 0;
  order o = {.when = AFTER};
  method *m;
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
  } else if (strcmp(verb, "deliver") == 0) {
    scripted_deliver(m);
  } else if (strcmp(verb, "held") == 0) {
    printf("%d\n", scripted_count_held(m));
  } else if (strcmp(verb, "tell") == 0) {
    scripted_tell(m);
    puts("0");
  } else if (strcmp(verb, "calls") == 0) {
    printf("%d\n", m->calls);
  } else if (strcmp(verb, "arrived") == 0) {
    printf("%lld\n", (long long)m->arrived_us);
  } else if (strcmp(verb, "heard") == 0) {
    printf("%d %s\n", m->heard.status, m->heard.text);
  } else {
    fprintf(stderr, "scripted_server: what is %s", line);
    exit(EXIT_FAILURE);
  }
}

int main(int argc, char **argv) {
  char line[512];
  if (argc < 2) {
    fprintf(stderr, "usage: %s HOST:PORT [STREAMS]\n", argv[0]);
    return EXIT_FAILURE;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  scripted_serve(argv[1], argc > 2 ? atoi(argv[2]) : INT_MAX);
  while (fgets(line, sizeof line, stdin) != NULL) {
    pthread_mutex_lock(&scripted_mu);
    obey(line);
    pthread_mutex_unlock(&scripted_mu);
  }
  _exit(EXIT_SUCCESS); /* calls may still run */
}
