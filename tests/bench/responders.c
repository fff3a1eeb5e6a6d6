/* Thousands of servers in one process, each a listener of its own that can be closed, told to fail or
 * told to be silent. Every arrival is noted with its time.
 *
 *   responders tcp|http COUNT       listens on REAL + i, port 8080; says "ready" once all do
 *
 * Commands on standard input, each answered by "NANOSECONDS ARRIVALS" once it has effect:
 *   close A B, open A B, fail A B, mute A B, ok A B     servers A to B - 1
 *   clear                                               forgets arrivals
 *   dump FILE                                           arrivals as pairs of 64-bit time and server
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { MOST = 1 << 20, OPEN_FILES = 200000 };
enum mood { OK, FAIL, MUTE };

static int http, poll_fd, count;
static int *listener;
static unsigned char *mood;
static int *server_of; /* by descriptor */
static long long (*arrivals)[2];
static int arrived;

static void watch(int fd, unsigned long long key) {
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = key };
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

static void open_listener(int i) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(8080), .sin_addr.s_addr = htonl(REAL + i) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0) die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, 64)) die("listen");
    listener[i] = fd;
    watch(fd, ((unsigned long long)1 << 32) | i);
}

/* The request is read before the close: unread bytes would turn the end into a reset. */
static void reply(int fd, int i) {
    static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";
    static const char bad[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    char in[2048];
    if (read(fd, in, sizeof in) > 0 && mood[i] != MUTE) {
        const char *text = mood[i] == FAIL ? bad : good;
        if (write(fd, text, strlen(text)) < 0 && errno != EPIPE && errno != ECONNRESET) die("write");
    } else if (mood[i] == MUTE && http) return;
    close(fd);
}

static void accept_one(int i) {
    int fd = accept4(listener[i], 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (arrived < MOST) {
        arrivals[arrived][0] = now();
        arrivals[arrived++][1] = i;
    }
    if (!http) { close(fd); return; }
    if (fd >= OPEN_FILES) { fprintf(stderr, "too many connections\n"); exit(1); }
    server_of[fd] = i;
    watch(fd, fd);
}

static void obey(char *line) {
    char what[16], file[256];
    int from = 0, to = 0;
    if (sscanf(line, "dump %255s", file) == 1) {
        FILE *f = fopen(file, "w");
        if (!f || fwrite(arrivals, sizeof *arrivals, arrived, f) != (size_t)arrived || fclose(f)) die(file);
    } else if (sscanf(line, "%15s %d %d", what, &from, &to) >= 1) {
        if (!strcmp(what, "clear")) arrived = 0;
        for (int i = from; i < to && i < count; i++) {
            if (!strcmp(what, "close")) { if (listener[i] >= 0) close(listener[i]); listener[i] = -1; }
            else if (!strcmp(what, "open")) { if (listener[i] < 0) open_listener(i); }
            else mood[i] = !strcmp(what, "fail") ? FAIL : !strcmp(what, "mute") ? MUTE : OK;
        }
    }
    printf("%lld %d\n", now(), arrived);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "responders tcp|http COUNT\n"); return 64; }
    http = !strcmp(argv[1], "http");
    count = atoi(argv[2]);
    struct rlimit many = { 524288, 524288 };
    setrlimit(RLIMIT_NOFILE, &many);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    listener = malloc(count * sizeof *listener);
    mood = calloc(count, 1);
    server_of = calloc(OPEN_FILES, sizeof *server_of);
    arrivals = malloc(MOST * sizeof *arrivals);
    if (poll_fd < 0 || !listener || !mood || !server_of || !arrivals) die("start");
    for (int i = 0; i < count; i++) open_listener(i);
    watch(0, (unsigned long long)2 << 32);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[256];
        int n = epoll_wait(poll_fd, events, 256, -1);
        for (int e = 0; e < n; e++) {
            unsigned long long key = events[e].data.u64;
            int i = (int)(key & 0xffffffff);
            if (key >> 32 == 2) {
                char line[512];
                size_t length = 0;
                while (length + 1 < sizeof line && read(0, line + length, 1) == 1 && line[length] != '\n') length++;
                if (!length) return 0;
                line[length] = 0;
                obey(line);
            } else if (key >> 32 == 1) { if (listener[i] >= 0) accept_one(i); }
            else reply(i, server_of[i]);
        }
    }
}
