/* Reads off the wire what cannot be seen from outside a daemon: when the verdict on a server fell (the reset that its
 * closed port sends, on lo), when the kernel was asked to write, and when it had answered (on nlmon0).
 *
 *   wire FAMILY      says "ready"; at the end of standard input prints, as numbers of one line:
 *     resets writes datagrams        resets seen, requests that change the table, datagrams that carried them
 *     lag                            seconds from the last reset to the last answer to a write
 *     median                         of the seconds from a write's nearest reset before it to its answer
 *     dump                           seconds from the first request to dump to the last answer, 0 without one
 *     span                           seconds from the first request that writes to the last answer to one
 *     dropped                        packets that the capture missed
 */
#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/filter.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { MOST = 1 << 20, GET_SERVICE = 4, GET_DEST = 8, GET_DAEMON = 11, GET_CONFIG = 13, GET_INFO = 15 };

static double *resets, *lags;
static long reset_count, lag_count, writes, datagrams;
static double first_dump, last_answer, first_write, last_write_answer, asked;

static int tap(const char *device, int protocol, int type) {
    struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = if_nametoindex(device) };
    int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0), yes = 1, large = 256 << 20;
    if (fd < 0 || !a.sll_ifindex) die(device);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
    if (type == SOCK_DGRAM) {
        struct sock_filter reset_only[] = {
            BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 0, 5),
            BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 8080, 0, 3),
            BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 33), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, 64), BPF_STMT(BPF_RET | BPF_K, 0),
        };
        struct sock_fprog program = { sizeof reset_only / sizeof *reset_only, reset_only };
        if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) die("filter");
    }
    if (bind(fd, (void *)&a, sizeof a)) die("bind");
    return fd;
}

static ssize_t take(int fd, char *in, size_t size, double *at, struct sockaddr_ll *from) {
    char control[256];
    struct iovec v = { in, size };
    struct msghdr m = { .msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &v, .msg_iovlen = 1,
                        .msg_control = control, .msg_controllen = sizeof control };
    ssize_t got = recvmsg(fd, &m, MSG_DONTWAIT);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); got >= 0 && c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec *t = (struct timespec *)CMSG_DATA(c);
            *at = t->tv_sec + t->tv_nsec / 1e9;
        }
    return got;
}

static void netlink(char *in, int left, double at, int family) {
    int wrote = 0;
    struct nlmsghdr *h = (struct nlmsghdr *)in;
    for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
        /* An answer's type may have request bits in its flags' place: only the family's own are requests. */
        if (h->nlmsg_type == family && h->nlmsg_flags & NLM_F_REQUEST) {
            int command = ((struct genlmsghdr *)NLMSG_DATA(h))->cmd;
            if (command == GET_SERVICE || command == GET_DEST) { if (!first_dump) first_dump = at; }
            else if (command != GET_DAEMON && command != GET_CONFIG && command != GET_INFO) { writes++; wrote = 1; }
        } else if (h->nlmsg_type == NLMSG_DONE) last_answer = at;
        else if (h->nlmsg_type == NLMSG_ERROR && asked) {
            last_write_answer = at;
            if (reset_count && lag_count < MOST) lags[lag_count++] = at - resets[reset_count - 1];
            asked = 0;
        }
    }
    if (wrote) { datagrams++; asked = at; if (!first_write) first_write = at; }
}

static int smaller(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }

int main(int argc, char **argv) {
    static char in[1 << 18];
    if (argc != 2) { fprintf(stderr, "wire FAMILY\n"); return 64; }
    int family = strtol(argv[1], 0, 0);
    int lo = tap("lo", ETH_P_IP, SOCK_DGRAM), monitor = tap("nlmon0", ETH_P_ALL, SOCK_RAW);
    resets = malloc(MOST * sizeof *resets);
    lags = malloc(MOST * sizeof *lags);
    if (!resets || !lags) die("memory");
    puts("ready");
    fflush(stdout);
    /* Events wait in their sockets, with their times, until the end: reading meanwhile would take the CPU. */
    for (char c; read(0, &c, 1) == 1;) {}
    double reset_at = 0, netlink_at = 0, kept[2] = { 0, 0 };
    struct sockaddr_ll from;
    for (ssize_t got; (got = take(lo, in, sizeof in, &reset_at, &from)) >= 0;)
        if (from.sll_pkttype == PACKET_HOST && reset_count < MOST) {
            /* The first of each server is its verdict; those of later checks decide nothing more. */
            static char seen[MOST];
            unsigned server = (((unsigned char)in[13] << 16) | ((unsigned char)in[14] << 8) | (unsigned char)in[15]) % MOST;
            if (!seen[server]) resets[reset_count++] = reset_at;
            seen[server] = 1;
        }
    long all = reset_count, used = 0;
    for (ssize_t got; (got = take(monitor, in, sizeof in, &netlink_at, &from)) >= 0;) {
        while (used < all && resets[used] <= netlink_at) used++;
        reset_count = used; /* the nearest reset before this datagram */
        netlink(in, got, netlink_at, family);
    }
    struct tpacket_stats s1 = { 0 }, s2 = { 0 };
    socklen_t length = sizeof s1;
    getsockopt(lo, SOL_PACKET, PACKET_STATISTICS, &s1, &length);
    length = sizeof s2;
    getsockopt(monitor, SOL_PACKET, PACKET_STATISTICS, &s2, &length);
    qsort(lags, lag_count, sizeof *lags, smaller);
    kept[0] = all && last_write_answer ? last_write_answer - resets[all - 1] : 0;
    kept[1] = lag_count ? lags[lag_count / 2] : 0;
    printf("%ld %ld %ld %.6f %.6f %.6f %.6f %u\n", all, writes, datagrams, kept[0], kept[1],
           first_dump ? last_answer - first_dump : 0, last_write_answer - first_write, s1.tp_drops + s2.tp_drops);
    return 0;
}
