/* The least that a program does which checks servers: one epoll loop, one connection for each check,
 * nothing remembered. The reference for CPU per check and, in a closed loop, for the most checks a second.
 *
 *   checks tcp|http COUNT MILLISECONDS SECONDS
 *
 * COUNT servers at REAL + i, port 8080, each once in MILLISECONDS, spread evenly; with 0 as fast as it goes with
 * 64 under way. Prints checks, failures, seconds and CPU seconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { AT_ONCE = 64 };
static int http, poll_fd, under_way;
static long checks, failures;

static void start(int i) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(8080), .sin_addr.s_addr = htonl(REAL + i) };
    struct linger reset = { 1, 0 };
    struct epoll_event e = { .events = EPOLLOUT };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (connect(fd, (void *)&a, sizeof a) && errno != EINPROGRESS) { failures++; close(fd); return; }
    e.data.fd = fd;
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
    under_way++;
}

static void end(int fd, int good) {
    close(fd);
    under_way--;
    checks++;
    failures += !good;
}

static void go_on(int fd, unsigned events) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n";
    char in[4096];
    if (events & EPOLLIN) {
        ssize_t got = read(fd, in, sizeof in);
        end(fd, got > 12 && !memcmp(in + 9, "200", 3));
        return;
    }
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error || !http) { end(fd, !error); return; }
    if (write(fd, request, sizeof request - 1) < 0) { end(fd, 0); return; }
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, fd, &e)) die("epoll_ctl");
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "checks tcp|http COUNT MILLISECONDS SECONDS\n"); return 64; }
    http = !strcmp(argv[1], "http");
    int count = atoi(argv[2]);
    double step = atof(argv[3]) * 1e6 / count;
    struct rlimit many = { 524288, 524288 };
    setrlimit(RLIMIT_NOFILE, &many);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    long long began = now(), last = began + atof(argv[4]) * 1e9, t = began;
    for (long next = 0; t < last; t = now()) {
        int wait = 0;
        if (step > 0) {
            while (began + next * step <= t) start(next++ % count);
            double left = (began + next * step - t) / 1e6;
            wait = left < 1 ? 1 : (int)left;
        } else {
            while (under_way < AT_ONCE) start(next++ % count);
            wait = 100;
        }
        struct epoll_event events[256];
        int n = epoll_wait(poll_fd, events, 256, wait);
        for (int e = 0; e < n; e++) go_on(events[e].data.fd, events[e].events);
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    printf("%ld %ld %.6f %.6f\n", checks, failures, (now() - began) / 1e9, cpu);
    return 0;
}
