/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of etwctl: each takes its own arguments (argv[0] is the verb) and returns an exit code.
 * A verb prints its own messages. One thread.
 */
#pragma once

#include "output.h"

int verb_status(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_start(int argc, char **argv);
int verb_stop(int argc, char **argv);
int verb_flush(int argc, char **argv);
int verb_update(int argc, char **argv);
int verb_snapshot(int argc, char **argv);
int verb_record(int argc, char **argv);
int verb_enable(int argc, char **argv);
int verb_disable(int argc, char **argv);
int verb_providers(int argc, char **argv);
int verb_mark(int argc, char **argv);
int verb_summary(int argc, char **argv);
int verb_dump(int argc, char **argv);
