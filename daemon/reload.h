/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGHUP: the configuration is read anew, on a worker, and what needs no restart is taken over. A
 * file with anything wrong in it changes nothing. Loop thread.
 */
#pragma once

struct options;
struct reload;
struct uid_workers;

/* options: their conf is what all others read; the caller's. */
int reload_new(struct options *options, struct uid_workers *workers, struct reload **ret);
/* No job may be under way any more: after the workers have settled. */
struct reload *reload_free(struct reload *r);
/* Once more when one is under way already. */
void reload_begin(struct reload *r);
