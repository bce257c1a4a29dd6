/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker of etwd-image: takes requests from etwd one after the other, has each file opened
 * (opener.h), hands the descriptor to the worker (worker.h), and passes the worker's answer on. It
 * holds the rights and reads no file. One thread; called by main().
 */
#pragma once

/* Serves `etwd_fd` until etwd closes it: 0; -errno when the broker cannot go on. */
int image_broker_run(int etwd_fd);
