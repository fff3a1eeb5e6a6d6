/* What the programs of the bench share. */
#ifndef COMMON_H
#define COMMON_H
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Server i is REAL + i, in 127.16.0.0 and after it. */
enum { REAL = 0x7f100000 };

static inline void die(const char *what) { perror(what); exit(1); }

static inline long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
#endif
