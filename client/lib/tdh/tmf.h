/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace message format files, which tell the text of WPP messages: reading (tmf_read.c) and making
 * the text (tmf_text.c). Files may be hostile. Not exported. Any thread; one object is one thread's
 * until it is not changed any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guid.h"

/* How an argument stands in the data. */
enum tmf_kind {
    TMF_INTEGER,
    TMF_DOUBLE,
    TMF_POINTER,
    TMF_TEXT8,     /* up to its NUL */
    TMF_TEXT16,    /* likewise */
    TMF_COUNTED8,  /* u16 bytes, then so many */
    TMF_COUNTED16, /* likewise */
    TMF_HEXDUMP,   /* likewise */
    TMF_SID,
    TMF_GUID,
    TMF_IPV4,
    TMF_IPV6,
    TMF_PORT,
    TMF_MAC,
    TMF_HRESULT,
    TMF_NTSTATUS,
    TMF_WIN32,
    TMF_LIST,  /* one of words */
    TMF_SET,   /* those of words whose bits are set */
    TMF_TIME,  /* FILETIME */
    TMF_DELTA, /* 100 ns */
};

struct tmf_item {
    uint16_t index; /* as the format names it */
    uint8_t kind;   /* enum tmf_kind */
    uint8_t size;   /* bytes; 0: the data tell */
    bool is_signed;
    bool trimmed;      /* line ends at its end are left out */
    const char *words; /* of lists and sets: NUL after each */
    uint32_t n_words;
};

struct tmf_message {
    struct etw_guid guid;
    uint16_t number;
    const char *provider, *name, *format; /* "" when it has none */
    const char *source, *function, *level, *flags;
    struct tmf_item *items; /* in the order of the data */
    uint32_t n_items;
};

struct tmf {
    struct tmf_message *messages;
    uint32_t n, cap;
    char *text; /* what the strings point into */
};

/* All messages of a file. 0; -EBADMSG: it is none; -ENOMEM. Takes a copy. */
int tmf_read(const void *data, size_t size, struct tmf **ret);
struct tmf *tmf_free(struct tmf *t);
const struct tmf_message *tmf_find(const struct tmf *t, const struct etw_guid *guid,
                                   uint16_t number);

/* What the header of the event tells, for the format's first nine arguments. */
struct tmf_header {
    uint32_t thread_id, process_id, cpu, sequence;
    uint64_t filetime;
};
/* The text, UTF-8 with a NUL, memory of malloc(3). 0; -EBADMSG: the data do not hold what the
 * format says; -ENOMEM. */
int tmf_text(const struct tmf_message *m, const struct tmf_header *h, const uint8_t *data,
             uint32_t size, uint8_t pointer_size, char **ret);
