/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a synthetic kernel trace for benchmarks: 40-byte events of several processors that
 * interleave. The same arguments give the same file.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/synthetic.h"

static uint64_t number(const char *text, const char *what, uint64_t max)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || v == 0 || v > max)
        errx(2, "%s must be a number from 1 to %llu, not '%s'", what, (unsigned long long) max,
             text);
    return v;
}

int main(int argc, char **argv)
{
    uint64_t mib;
    uint32_t processors;
    uint32_t burst;
    uint32_t buffer_kb;
    uint64_t events;

    if (argc < 3 || argc > 6) {
        fprintf(stderr,
                "usage: %s FILE MIB [PROCESSORS [BURST [BUFFER-KB]]]\n"
                "BURST: mean length of a run of events of one processor; 1 is the worst\n",
                argv[0]);
        return 2;
    }
    mib = number(argv[2], "MIB", 1u << 20);
    processors = argc > 3 ? (uint32_t) number(argv[3], "PROCESSORS", 1024) : 8;
    burst = argc > 4 ? (uint32_t) number(argv[4], "BURST", 100000) : 1;
    buffer_kb = argc > 5 ? (uint32_t) number(argv[5], "BUFFER-KB", 16384) : 64;
    events = synthetic_kernel_file(argv[1], mib << 20, buffer_kb * 1024, processors, burst);
    printf("%llu events\n", (unsigned long long) events);
    return 0;
}
