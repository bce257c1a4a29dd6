/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap of a merge by time: what has the earliest stamp lies on top. The router merges its
 * sources with it, the providers' source its rings. Entries are by value and the memory is the
 * caller's, so that a step touches nothing but the heap. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_entry {
    uint64_t stamp;
    void *of; /* whose record it is; of equal stamps the lower address is first */
};

static inline bool merge_earlier(const struct merge_entry *a, const struct merge_entry *b)
{
    return a->stamp < b->stamp || (a->stamp == b->stamp && (uintptr_t) a->of < (uintptr_t) b->of);
}

/* Entry i has a later stamp than it had: it goes down to its place. */
static inline void merge_down(struct merge_entry *h, size_t n, size_t i)
{
    struct merge_entry e = h[i];

    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= n)
            break;
        if (c + 1 < n && merge_earlier(&h[c + 1], &h[c]))
            c++;
        if (!merge_earlier(&h[c], &e))
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = e;
}

/* Makes a heap of n entries in any order. */
static inline void merge_build(struct merge_entry *h, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        merge_down(h, n, i);
}
