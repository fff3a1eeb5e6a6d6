/* Faults of generic netlink, for the process that preloads this. The orders are in a file that the test
 * writes and this maps; only sockets of NETLINK_GENERIC are touched.
 *
 * REFUSED takes a write of IPVS out of what is sent (the kernel skips a NOOP) and answers for it with the
 * kernel's own message of an error, so that what the daemon hears is true: it was not done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { NOTHING, SEND_FAILS, RECEIVE_FAILS, ANSWER_LOST, REFUSED, DUMP_INTERRUPTED };

struct orders {
  unsigned fault, error, period, calls, injected;
};

static volatile struct orders *orders;
static __thread struct nlmsghdr pending[128];
static __thread int waiting, taken;

static int due(unsigned fault) {
  if (!orders || orders->fault != fault) return 0;
  if (__sync_add_and_fetch(&orders->calls, 1) % orders->period) return 0;
  __sync_add_and_fetch(&orders->injected, 1);
  return 1;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("LVSD_FAULT_ORDERS");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *map = mmap(0, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map != MAP_FAILED) orders = map;
}

static int is_generic_netlink(int socket) {
  int domain = 0, protocol = 0;
  socklen_t length = sizeof domain;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) || domain != AF_NETLINK) return 0;
  length = sizeof protocol;
  return !getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) && protocol == NETLINK_GENERIC;
}

/* IPVS_CMD_NEW_SERVICE to DEL_DEST, but for the two that read. */
static int is_write(const struct nlmsghdr *message) {
  const struct genlmsghdr *head = NLMSG_DATA(message);
  return message->nlmsg_type > GENL_ID_CTRL && message->nlmsg_len >= NLMSG_LENGTH(GENL_HDRLEN) &&
         head->cmd >= 1 && head->cmd <= 7 && head->cmd != 4;
}

ssize_t send(int socket, const void *bytes, size_t length, int flags) {
  static ssize_t (*real)(int, const void *, size_t, int);
  if (!real) real = dlsym(RTLD_NEXT, "send");
  if (!orders || !orders->fault || !is_generic_netlink(socket)) return real(socket, bytes, length, flags);
  waiting = taken = 0;
  if (due(SEND_FAILS)) {
    errno = orders->error;
    return -1;
  }
  char *copy = malloc(length);
  if (!copy) return -1;
  memcpy(copy, bytes, length);
  size_t left = length;
  for (struct nlmsghdr *m = (void *)copy; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
    if (is_write(m) && waiting < 128 && due(REFUSED)) {
      pending[waiting++] = *m;
      m->nlmsg_type = NLMSG_NOOP;
      m->nlmsg_flags &= ~NLM_F_ACK;
    }
  ssize_t result = real(socket, copy, length, flags);
  free(copy);
  return result;
}

ssize_t recv(int socket, void *bytes, size_t length, int flags) {
  static ssize_t (*real)(int, void *, size_t, int);
  if (!real) real = dlsym(RTLD_NEXT, "recv");
  if (!orders || !orders->fault || !is_generic_netlink(socket)) return real(socket, bytes, length, flags);
  if (taken < waiting) {
    struct { struct nlmsghdr head; int error; struct nlmsghdr of; } answer = {
      .head = { .nlmsg_len = sizeof answer, .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = pending[taken].nlmsg_seq },
      .error = -(int)orders->error, .of = pending[taken],
    };
    taken++;
    memcpy(bytes, &answer, sizeof answer);
    return sizeof answer;
  }
  /* EINTR leaves what there is where it is; ENOBUFS says that it is gone. */
  if (due(RECEIVE_FAILS)) {
    if (orders->error != EINTR) real(socket, bytes, length, flags);
    errno = orders->error;
    return -1;
  }
  if (due(ANSWER_LOST)) {
    real(socket, bytes, length, flags);
    errno = EAGAIN;
    return -1;
  }
  ssize_t result = real(socket, bytes, length, flags);
  if (result > 0 && due(DUMP_INTERRUPTED)) {
    size_t left = result;
    for (struct nlmsghdr *m = bytes; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
      if (m->nlmsg_flags & NLM_F_MULTI) m->nlmsg_flags |= NLM_F_DUMP_INTR;
  }
  return result;
}
