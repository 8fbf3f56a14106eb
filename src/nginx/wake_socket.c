/* wake_socket: a unix-domain socket that listens and leaves no file behind.
 */
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
  SCAN_MAX = 65536 /* descriptors that are looked at, at most */
};

static const char BY_FD[] = "/proc/self/fd/";

static bool make_dir_in(const char *parent, char *dir, size_t size) {
  if (snprintf(dir, size, "%s/etcdlock-XXXXXX", parent) >= (int)size) {
    errno = ENAMETOOLONG;
    return false;
  }
  return mkdtemp(dir) != NULL;
}

/* A private directory below |parent|, if that is told, in |dir| of |size|. The TMPDIR
 * of whoever started this process may not be writable for the user that it has
 * become. */
static bool make_dir(const char *parent, char *dir, size_t size,
                     el_error *err) {
  const char *tmp = parent == NULL ? getenv("TMPDIR") : NULL;
  if (tmp != NULL && *tmp != '\0' && make_dir_in(tmp, dir, size)) return true;
  if (parent == NULL) parent = "/tmp";
  if (make_dir_in(parent, dir, size)) return true;
  el_error_set(err, EL_CONTEXT,
               "can't make the socket to wait with below %s: %s; name a "
               "directory that this process may write to: socket_dir of "
               "connect, or TMPDIR",
               parent, el_errno_text(errno));
  return false;
}

/* An unlinked socket can still be reached through a descriptor of it. */
static void hide(el_wake_socket *at, const char *dir, const char *name) {
  char path[sizeof BY_FD + 16];
  at->path_fd = open(name, O_PATH | O_CLOEXEC);
  snprintf(path, sizeof path, "%s%d", BY_FD, at->path_fd);
  if (at->path_fd >= 0 && access(path, F_OK) == 0) {
    unlink(name);
    rmdir(dir);
    strcpy(at->path, path);
  } else {
    strcpy(at->path, name);
  }
}

static bool listen_at(el_wake_socket *at, const struct sockaddr_un *address) {
  at->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return at->fd >= 0 &&
         bind(at->fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
         listen(at->fd, BACKLOG) == 0;
}

bool el_wake_socket_open(el_wake_socket *at, const char *parent,
                         el_error *err) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char dir[sizeof address.sun_path - sizeof "/wake"];
  if (!make_dir(parent, dir, sizeof dir, err)) return false;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/wake", dir);
  if (!listen_at(at, &address)) {
    el_error_set(err, EL_NOMEM, "can't listen at %s: %s", address.sun_path,
                 el_errno_text(errno));
    unlink(address.sun_path);
    rmdir(dir);
    return false;
  }
  hide(at, dir, address.sun_path);
  return true;
}

/* ---- the other ends ---- */

int el_wake_socket_next_fd(const el_wake_socket *at) {
  int fd = fcntl(at->fd, F_DUPFD_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd;
}

static bool is_connected_to(int fd, const struct sockaddr_un *ours) {
  struct sockaddr_un theirs = {0};
  socklen_t size = sizeof theirs;
  return getpeername(fd, (struct sockaddr *)&theirs, &size) == 0 &&
         theirs.sun_family == AF_UNIX &&
         strncmp(theirs.sun_path, ours->sun_path, sizeof ours->sun_path) == 0;
}

/* Almost always it is |next_fd|. If another thread was faster, it is the one of
 * ours that nobody has sealed yet. */
void el_wake_socket_seal(const el_wake_socket *at, int next_fd) {
  struct sockaddr_un ours = {0};
  socklen_t size = sizeof ours;
  int fd = next_fd;
  getsockname(at->fd, (struct sockaddr *)&ours, &size);
  if (!is_connected_to(fd, &ours)) {
    for (fd = 0; fd < SCAN_MAX; fd++) {
      if (fcntl(fd, F_GETFD) == 0 && is_connected_to(fd, &ours)) break;
    }
  }
  if (fd < SCAN_MAX) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* ---- end ---- */

static void remove_name(el_wake_socket *at) {
  char *slash = strrchr(at->path, '/');
  if (slash == NULL || strncmp(at->path, BY_FD, sizeof BY_FD - 1) == 0) return;
  unlink(at->path);
  *slash = '\0';
  rmdir(at->path);
}

void el_wake_socket_close(el_wake_socket *at) {
  remove_name(at);
  if (at->fd >= 0) close(at->fd);
  if (at->path_fd >= 0) close(at->path_fd);
}
