/* SPDX-License-Identifier: Apache-2.0
 *
 * Build-ids of the images of one trace. An event of its own, directly before the image's and with
 * the same stamp, brings them; when the image goes they are known from when it came. Fed with
 * events in time order. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct build_id {
    uint64_t stamp;
    uint64_t base;
    uint32_t pid;
    uint8_t size; /* 0: none */
    uint8_t bytes[64];
};

struct image_ids;

struct image_ids *image_ids_new(void);
struct image_ids *image_ids_free(struct image_ids *ids);

/* An identity was told. */
void image_ids_told(struct image_ids *ids, const struct build_id *id);
/* The identity of an image that is there or comes (it is kept), or that goes (it is forgotten);
 * NULL: unknown. Valid until the next call. */
const struct build_id *image_ids_comes(struct image_ids *ids, uint64_t stamp, uint32_t pid,
                                       uint64_t base);
const struct build_id *image_ids_goes(struct image_ids *ids, uint64_t stamp, uint32_t pid,
                                      uint64_t base);
