/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of WPP messages by the TMF files that a user names, through libtdh. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tdh.h>

/* A TMF file, or a folder of files called GUID.tmf; may be called again. 0, or an exit code after a
 * message. */
int messages_add(const char *path);
/* The text (UTF-16), good up to the next call; NULL: no file has it. */
const void *messages_text(const EVENT_RECORD *r, size_t *ret_size);
/* Names for an event that has a text, UTF-8, good up to the next call; "" when there is none. */
const char *messages_provider(const EVENT_RECORD *r);
const char *messages_name(const EVENT_RECORD *r);
void messages_clear(void);
