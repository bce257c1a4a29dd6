/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: TMF files, and the texts of all their messages over data. Input: a file up to a NUL,
 * then the data. Each message is found by its GUID and number.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tdh/tmf.h"

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t length = nul ? (size_t) (nul - data) : size;
    size_t rest = nul ? size - length - 1 : 0;
    const struct tmf_header h = {.thread_id = 1, .process_id = 2, .filetime = 132756731728578510};
    struct tmf *t;

    if (tmf_read(data, length, &t) < 0)
        return 0;
    if (rest > UINT16_MAX)
        rest = UINT16_MAX;
    /* Of its own, so that nothing is read beyond its end. */
    uint8_t *payload = malloc(rest ? rest : 1);
    check(payload != NULL);
    if (rest)
        memcpy(payload, nul + 1, rest);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct tmf_message *m = &t->messages[i];
        check(tmf_find(t, &m->guid, m->number) != NULL);
        for (uint8_t pointer = 4; pointer <= 8; pointer += 4) {
            char *text = NULL;
            if (tmf_text(m, &h, payload, (uint32_t) rest, pointer, &text) == 0)
                check(strlen(text) <= 1u << 20);
            free(text);
        }
    }
    free(payload);
    (void) tmf_free(t);
    return 0;
}
