/* SPDX-License-Identifier: Apache-2.0
 *
 * Session names: what is one, and when two are the same. Pure functions.
 */
#pragma once

#include <stddef.h>

/* Why this cannot be a session's name (static text), or NULL when it can. */
const char *session_name_fault(const char *name);

/* The name as comparisons see it, in memory of malloc(3): case folded for ASCII, Latin, Greek and
 * Cyrillic letters (those with one simple counterpart). NULL without memory. */
char *session_name_fold(const char *name);
