/* wake_socket: a listening unix-domain socket that leaves no file behind. */
#include "nginx/wake_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

enum {
  BACKLOG = 4096,
  /* el_wake_socket_set_cloexec examines only descriptors below this */
  SCAN_MAX = 65536
};

static const char BY_FD[] = "/proc/self/fd/";

/* ---- open ---- */

static bool make_dir_in(const char *parent, char *dir, size_t size) {
  if (snprintf(dir, size, "%s/etcdlock-XXXXXX", parent) >= (int)size) {
    errno = ENAMETOOLONG;
    return false;
  }
  return mkdtemp(dir) != NULL;
}

/* Creates a private directory and writes its path to |dir|, of |size| bytes. If |parent| is NULL
 * and the directory cannot be created below $TMPDIR, it is created below /tmp: nginx's master may
 * have been started with a TMPDIR that the user of its workers may not write to. */
static bool make_dir(const char *parent, char *dir, size_t size,
                     el_error *err) {
  const char *tmp = parent == NULL ? getenv("TMPDIR") : NULL;
  if (tmp != NULL && *tmp != '\0' && make_dir_in(tmp, dir, size)) return true;
  if (parent == NULL) parent = "/tmp";
  if (make_dir_in(parent, dir, size)) return true;
  el_error_set(err, EL_CONTEXT,
               "cannot create the wake-up socket below %s: %s; set socket_dir "
               "of connect, or TMPDIR, to a directory that this process can "
               "write to",
               parent, el_errno_text(errno));
  return false;
}

/* Removes the socket |name| and its directory |dir| if the socket can be reached through an O_PATH
 * descriptor, and sets ws->path to the path to connect to. */
static void unlink_name(el_wake_socket *ws, const char *dir, const char *name) {
  char path[sizeof BY_FD + 16];
  ws->path_fd = open(name, O_PATH | O_CLOEXEC);
  snprintf(path, sizeof path, "%s%d", BY_FD, ws->path_fd);
  if (ws->path_fd >= 0 && access(path, F_OK) == 0) {
    unlink(name);
    rmdir(dir);
    strcpy(ws->path, path);
  } else {
    strcpy(ws->path, name);
  }
}

static bool listen_at(el_wake_socket *ws, const struct sockaddr_un *address) {
  ws->listen_fd =
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return ws->listen_fd >= 0 &&
         bind(ws->listen_fd, (const struct sockaddr *)address,
              sizeof *address) == 0 &&
         listen(ws->listen_fd, BACKLOG) == 0;
}

bool el_wake_socket_open(el_wake_socket *ws, const char *parent,
                         el_error *err) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char dir[sizeof address.sun_path - sizeof "/wake"];
  if (!make_dir(parent, dir, sizeof dir, err)) return false;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/wake", dir);
  if (!listen_at(ws, &address)) {
    el_error_set(err, EL_NOMEM, "cannot listen on %s: %s", address.sun_path,
                 el_errno_text(errno));
    unlink(address.sun_path);
    rmdir(dir);
    return false;
  }
  unlink_name(ws, dir, address.sun_path);
  return true;
}

/* ---- close-on-exec ---- */

int el_wake_socket_next_fd(const el_wake_socket *ws) {
  int fd = fcntl(ws->listen_fd, F_DUPFD_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd;
}

static bool is_connected_to(int fd, const struct sockaddr_un *address) {
  struct sockaddr_un peer = {0};
  socklen_t size = sizeof peer;
  return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
         peer.sun_family == AF_UNIX &&
         strncmp(peer.sun_path, address->sun_path, sizeof peer.sun_path) == 0;
}

/* The connection is almost always |next_fd|. If another thread has taken that number, the
 * connection is the one descriptor connected to |ws| that is not close-on-exec yet. */
void el_wake_socket_set_cloexec(const el_wake_socket *ws, int next_fd) {
  struct sockaddr_un address = {0};
  socklen_t size = sizeof address;
  int fd = next_fd;
  getsockname(ws->listen_fd, (struct sockaddr *)&address, &size);
  if (!is_connected_to(fd, &address)) {
    for (fd = 0; fd < SCAN_MAX; fd++) {
      if (fcntl(fd, F_GETFD) == 0 && is_connected_to(fd, &address)) break;
    }
    if (fd == SCAN_MAX) return;
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* ---- close ---- */

static void remove_name(el_wake_socket *ws) {
  char *slash = strrchr(ws->path, '/');
  if (slash == NULL || strncmp(ws->path, BY_FD, sizeof BY_FD - 1) == 0) return;
  unlink(ws->path);
  *slash = '\0';
  rmdir(ws->path);
}

void el_wake_socket_close(el_wake_socket *ws) {
  remove_name(ws);
  if (ws->listen_fd >= 0) close(ws->listen_fd);
  if (ws->path_fd >= 0) close(ws->path_fd);
}
