/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the events of one language's file, see events.h.
 */
#include "lib/test.h"

void EVENTS(void);

START_TEST(events)
{
    EVENTS();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tracelogging");
    TCase *t = tcase_create("events");

    tcase_add_test(t, events);
    suite_add_tcase(s, t);
    return test_main(s);
}
