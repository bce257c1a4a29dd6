/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a layout table: what a structure, member or constant is in one set of headers. Three
 * translation units fill tables from the same list: the headers of mingw-w64, ours in C, ours in
 * C++.
 */
#ifndef LAYOUT_TABLE_H
#define LAYOUT_TABLE_H

struct layout_row {
    const char *name;
    const char *member;       /* or "" */
    unsigned long long value; /* offset, value, or alignment of a structure */
    unsigned long long size;  /* of the structure or member */
    unsigned char bytes[128]; /* text, GUID, or what a bit field sets */
};
#define LAYOUT_ROWS_MAX 2048

#ifdef __cplusplus
extern "C" {
#endif
/* Fill the table; the number of rows. */
unsigned layout_mingw(struct layout_row *rows);
unsigned layout_ours_c(struct layout_row *rows);
unsigned layout_ours_cxx(struct layout_row *rows);
#ifdef __cplusplus
}
#endif

#endif
