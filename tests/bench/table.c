/* References for work on the IPVS table, each the least that can be done: bare system calls one at a
 * time, batches of netlink requests that were encoded beforehand, one request and its answer, and a
 * whole dump that is read and thrown away. Also waits for a table of a given size.
 *
 *   table floor SERVICES SERVERS SCHEDULER      seconds of setsockopt, one call for each entry
 *   table batch SERVICES SERVERS SCHEDULER      seconds of pre-encoded batches for the same table
 *   table late SERVICES SERVERS SCHEDULER       the same, added under rr, then edited to SCHEDULER
 *   table remove SERVICES SERVERS SHARE         seconds to delete the first SHARE of each service's servers, batched
 *   table one COUNT                             mean seconds of one pre-encoded edit and its answer
 *   table dump                                  seconds of the whole table read once by netlink
 *   table wait SERVERS SECONDS                  until so many destinations are there; 0: until no service is.
 *                                               Prints the nanoseconds of first entry and end (CLOCK_MONOTONIC)
 *   table clear
 * Virtual servers are VIRTUAL + s, port 80; real servers REAL + s * SERVERS + r, port 8080.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { VIRTUAL = 0x0ac80000, BATCH = 250, MOST_SERVICES = 16384 };

static int family, netlink_fd, raw_fd;
static char *out;
static size_t used, size, *ends;
static int count;

static void report(long long began) { printf("%.6f\n", (now() - began) / 1e9); }

/* One request more at the end of what is encoded. */
static struct nlmsghdr *begin(int command, int flags) {
    if (size - used < 1024) {
        size = size * 2 + 65536;
        out = realloc(out, size);
        ends = realloc(ends, (size / 20) * sizeof *ends);
        if (!out || !ends) die("memory");
    }
    struct nlmsghdr *h = (struct nlmsghdr *)(out + used);
    memset(h, 0, 1024);
    h->nlmsg_type = family;
    h->nlmsg_flags = NLM_F_REQUEST | flags;
    h->nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
    struct genlmsghdr *g = NLMSG_DATA(h);
    g->cmd = command;
    g->version = 1;
    return h;
}

static struct nlattr *put(struct nlmsghdr *h, int type, const void *data, int length) {
    struct nlattr *a = (struct nlattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));
    a->nla_type = type;
    a->nla_len = NLA_HDRLEN + length;
    if (length) memcpy((char *)a + NLA_HDRLEN, data, length);
    h->nlmsg_len = NLMSG_ALIGN(h->nlmsg_len) + NLA_ALIGN(a->nla_len);
    return a;
}

static void put16(struct nlmsghdr *h, int type, unsigned short v) { put(h, type, &v, 2); }
static void put32(struct nlmsghdr *h, int type, unsigned v) { put(h, type, &v, 4); }

static void close_nest(struct nlmsghdr *h, struct nlattr *a) { a->nla_len = (char *)h + h->nlmsg_len - (char *)a; }

static void finish(struct nlmsghdr *h) {
    used += NLMSG_ALIGN(h->nlmsg_len);
    ends[count++] = used;
}

static void service(struct nlmsghdr *h, unsigned s, const char *scheduler) {
    unsigned address[4] = { htonl(VIRTUAL + s) };
    struct nlattr *nest = put(h, IPVS_CMD_ATTR_SERVICE | NLA_F_NESTED, 0, 0);
    put16(h, IPVS_SVC_ATTR_AF, AF_INET);
    put16(h, IPVS_SVC_ATTR_PROTOCOL, IPPROTO_TCP);
    put(h, IPVS_SVC_ATTR_ADDR, address, 16);
    put16(h, IPVS_SVC_ATTR_PORT, htons(80));
    if (scheduler) {
        struct ip_vs_flags flags = { 0, ~0u };
        put(h, IPVS_SVC_ATTR_SCHED_NAME, scheduler, strlen(scheduler) + 1);
        put(h, IPVS_SVC_ATTR_FLAGS, &flags, sizeof flags);
        put32(h, IPVS_SVC_ATTR_TIMEOUT, 0);
        put32(h, IPVS_SVC_ATTR_NETMASK, ~0u);
    }
    close_nest(h, nest);
}

static void destination(struct nlmsghdr *h, unsigned real, int weight) {
    unsigned address[4] = { htonl(REAL + real) };
    struct nlattr *nest = put(h, IPVS_CMD_ATTR_DEST | NLA_F_NESTED, 0, 0);
    put(h, IPVS_DEST_ATTR_ADDR, address, 16);
    put16(h, IPVS_DEST_ATTR_PORT, htons(8080));
    put16(h, IPVS_DEST_ATTR_ADDR_FAMILY, AF_INET);
    if (weight >= 0) {
        put32(h, IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ);
        put32(h, IPVS_DEST_ATTR_WEIGHT, weight);
        put32(h, IPVS_DEST_ATTR_U_THRESH, 0);
        put32(h, IPVS_DEST_ATTR_L_THRESH, 0);
    }
    close_nest(h, nest);
}

/* Reads until the answer that ends a request; the code in it. */
static int answer(void) {
    static char in[1 << 18];
    for (;;) {
        ssize_t got = recv(netlink_fd, in, sizeof in, 0);
        if (got < 0) die("recv");
        struct nlmsghdr *h = (struct nlmsghdr *)in;
        for (int left = got; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
            if (h->nlmsg_type == NLMSG_ERROR) return *(int *)NLMSG_DATA(h);
            if (h->nlmsg_type == NLMSG_DONE) return 0;
            if (!family && h->nlmsg_type == GENL_ID_CTRL) {
                struct nlattr *a = (struct nlattr *)((char *)NLMSG_DATA(h) + GENL_HDRLEN);
                while ((char *)a < (char *)h + h->nlmsg_len) {
                    if (a->nla_type == CTRL_ATTR_FAMILY_ID) family = *(unsigned short *)((char *)a + NLA_HDRLEN);
                    a = (struct nlattr *)((char *)a + NLA_ALIGN(a->nla_len));
                }
                return 0;
            }
        }
    }
}

static void send_all(const char *data, size_t length) {
    if (send(netlink_fd, data, length, 0) != (ssize_t)length) die("send");
}

/* All that is encoded, one acknowledgement for each batch. */
static void write_batches(void) {
    for (int i = 0; i < count;) {
        int last = i + BATCH < count ? i + BATCH : count;
        size_t from = i ? ends[i - 1] : 0, tail = last > 1 ? ends[last - 2] : 0;
        ((struct nlmsghdr *)(out + tail))->nlmsg_flags |= NLM_F_ACK;
        send_all(out + from, ends[last - 1] - from);
        int code = answer();
        if (code) { errno = -code; die("batch"); }
        i = last;
    }
}

static void open_netlink(void) {
    netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
    int large = 8 << 20;
    if (netlink_fd < 0) die("netlink");
    setsockopt(netlink_fd, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
    setsockopt(netlink_fd, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large);
    struct nlmsghdr *h = begin(CTRL_CMD_GETFAMILY, 0);
    h->nlmsg_type = GENL_ID_CTRL;
    put(h, CTRL_ATTR_FAMILY_NAME, "IPVS", 5);
    send_all(out, h->nlmsg_len);
    answer();
    if (!family) { fprintf(stderr, "no IPVS in this kernel\n"); exit(1); }
}

static void floor_by_calls(unsigned services, unsigned servers, const char *scheduler) {
    struct { struct ip_vs_service_user s; struct ip_vs_dest_user d; } both;
    for (unsigned s = 0; s < services; s++) {
        memset(&both, 0, sizeof both);
        both.s.protocol = IPPROTO_TCP;
        both.s.addr = htonl(VIRTUAL + s);
        both.s.port = htons(80);
        both.s.netmask = ~0u;
        strcpy(both.s.sched_name, scheduler);
        if (setsockopt(raw_fd, IPPROTO_IP, IP_VS_SO_SET_ADD, &both.s, sizeof both.s)) die("add");
        for (unsigned r = 0; r < servers; r++) {
            both.d.addr = htonl(REAL + s * servers + r);
            both.d.port = htons(8080);
            both.d.weight = 1;
            both.d.conn_flags = IP_VS_CONN_F_MASQ;
            if (setsockopt(raw_fd, IPPROTO_IP, IP_VS_SO_SET_ADDDEST, &both, sizeof both)) die("add destination");
        }
    }
}

static void encode_table(unsigned services, unsigned servers, const char *first, const char *then) {
    for (unsigned s = 0; s < services; s++) {
        struct nlmsghdr *h = begin(IPVS_CMD_NEW_SERVICE, 0);
        service(h, s, first);
        finish(h);
        for (unsigned r = 0; r < servers; r++) {
            h = begin(IPVS_CMD_NEW_DEST, 0);
            service(h, s, 0);
            destination(h, s * servers + r, 1);
            finish(h);
        }
        if (then) {
            h = begin(IPVS_CMD_SET_SERVICE, 0);
            service(h, s, then);
            finish(h);
        }
    }
}

static void encode_removals(unsigned services, unsigned servers, double share) {
    for (unsigned s = 0; s < services; s++)
        for (unsigned r = 0; r < servers * share; r++) {
            struct nlmsghdr *h = begin(IPVS_CMD_DEL_DEST, 0);
            service(h, s, 0);
            destination(h, s * servers + r, -1);
            finish(h);
        }
}

static void one(int times) {
    struct nlmsghdr *h = begin(IPVS_CMD_SET_DEST, NLM_F_ACK);
    service(h, 0, 0);
    destination(h, 0, 1);
    finish(h);
    long long began = now();
    for (int i = 0; i < times; i++) {
        send_all(out, used);
        if (answer()) die("edit");
    }
    printf("%.9f\n", (now() - began) / 1e9 / times);
}

/* Asks getsockopt, which copies one entry for each service and none for its destinations. */
static struct ip_vs_get_services *services_now(unsigned *destinations) {
    static struct ip_vs_get_services *all;
    struct ip_vs_getinfo info;
    socklen_t length = sizeof info;
    if (!all) all = malloc(sizeof *all + MOST_SERVICES * sizeof all->entrytable[0]);
    if (!all || getsockopt(raw_fd, IPPROTO_IP, IP_VS_SO_GET_INFO, &info, &length)) die("info");
    *destinations = 0;
    all->num_services = info.num_services;
    length = sizeof *all + info.num_services * sizeof all->entrytable[0];
    if (getsockopt(raw_fd, IPPROTO_IP, IP_VS_SO_GET_SERVICES, all, &length)) {
        all->num_services = ~0u; /* changed between the two calls */
        return all;
    }
    for (unsigned i = 0; i < all->num_services; i++) *destinations += all->entrytable[i].num_dests;
    return all;
}

static void dump(void) {
    static char in[1 << 18];
    unsigned destinations, seen = 0;
    long long began = now();
    struct nlmsghdr *h = begin(IPVS_CMD_GET_SERVICE, NLM_F_DUMP);
    send_all(out, h->nlmsg_len);
    answer();
    struct ip_vs_get_services *all = services_now(&destinations);
    for (unsigned s = 0; s < all->num_services; s++) {
        used = 0;
        h = begin(IPVS_CMD_GET_DEST, NLM_F_DUMP);
        service(h, ntohl(all->entrytable[s].addr) - VIRTUAL, 0);
        send_all(out, h->nlmsg_len);
        for (int done = 0; !done;) {
            ssize_t got = recv(netlink_fd, in, sizeof in, 0);
            if (got < 0) die("recv");
            struct nlmsghdr *m = (struct nlmsghdr *)in;
            for (int left = got; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
                if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) done = 1;
                else seen++;
            }
        }
    }
    printf("%.6f %u\n", (now() - began) / 1e9, seen);
}

static int wait_for(unsigned wanted, double seconds) {
    unsigned destinations;
    long long end = now() + seconds * 1e9, first = 0;
    struct timespec pause = { 0, 2000000 };
    while (now() < end) {
        struct ip_vs_get_services *all = services_now(&destinations);
        if (all->num_services != ~0u) {
            if (!first && all->num_services) first = now();
            if (wanted ? destinations == wanted : all->num_services == 0) {
                printf("%lld %lld\n", first, now());
                return 0;
            }
        }
        nanosleep(&pause, 0);
    }
    fprintf(stderr, "%u destinations, not %u\n", destinations, wanted);
    return 1;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    unsigned a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
    const char *scheduler = argc > 4 ? argv[4] : "rr";
    raw_fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    if (raw_fd < 0) die("socket");
    if (!strcmp(what, "wait")) return wait_for(a, argc > 3 ? atof(argv[3]) : 60);
    if (!strcmp(what, "clear")) {
        if (setsockopt(raw_fd, IPPROTO_IP, IP_VS_SO_SET_FLUSH, 0, 0)) die("flush");
        return 0;
    }
    open_netlink();
    used = 0;
    long long began;
    if (!strcmp(what, "floor")) {
        began = now();
        floor_by_calls(a, b, scheduler);
        report(began);
    } else if (!strcmp(what, "batch") || !strcmp(what, "late")) {
        int late = what[0] == 'l';
        encode_table(a, b, late ? "rr" : scheduler, late ? scheduler : 0);
        began = now();
        write_batches();
        report(began);
    } else if (!strcmp(what, "remove")) {
        encode_removals(a, b, argc > 4 ? atof(argv[4]) : 1);
        began = now();
        write_batches();
        report(began);
    } else if (!strcmp(what, "one")) one(a);
    else if (!strcmp(what, "dump")) dump();
    else { fprintf(stderr, "see the head of table.c\n"); return 64; }
    return 0;
}
