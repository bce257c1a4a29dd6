/* SPDX-License-Identifier: Apache-2.0
 *
 * See slots.h.
 */
#include "slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* At most this part of the file stays as it is. */
#define KEPT_PART 4

int slots_init(struct slots *s, uint64_t n)
{
    *s = (struct slots){.n = n};
    if (n == 0)
        return 0;
    s->events = calloc(n, sizeof(*s->events));
    return s->events ? 0 : -ENOMEM;
}

void slots_done(struct slots *s)
{
    free(s->events);
    *s = (struct slots){0};
}

void slots_clear(struct slots *s)
{
    s->kept = 0;
    if (s->n > 0)
        memset(s->events, 0, s->n * sizeof(*s->events));
}

void slots_keep(struct slots *s, uint64_t buffers)
{
    s->kept = buffers < s->n / KEPT_PART ? buffers : s->n / KEPT_PART;
}

uint64_t slots_place(const struct slots *s, uint64_t index)
{
    if (s->n == 0 || index < s->n)
        return index;
    return s->kept + (index - s->kept) % (s->n - s->kept);
}

uint64_t slots_used(const struct slots *s, uint64_t index)
{
    return s->n == 0 || index < s->n ? index : s->n;
}

uint32_t slots_depth(const struct slots *s, uint32_t wanted)
{
    return s->n == 0 || wanted <= s->n - s->kept ? wanted : (uint32_t) (s->n - s->kept);
}

uint32_t slots_put(struct slots *s, uint64_t place, uint32_t events)
{
    uint32_t old;

    if (s->n == 0)
        return 0;
    old = s->events[place];
    s->events[place] = events;
    return old;
}
