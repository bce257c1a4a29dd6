/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring's protocol in all interleavings (ring-model.h): each record once, whole, in order; none
 * older than its ring vouched for; late only behind a writer that was passed over; nobody sleeps
 * over a record. And each rule broken on purpose is noticed: the checker can fail.
 */
#include "base/cleanup.h"
#include "lib/test.h"
#include "ring-model.h"

#define STATES_MAX 6000000u
/* With ETW_TEST_SCALE=10 and above. */
#define STATES_MAX_LONG 60000000u

static const struct model sound[] = {
    {"one writer", 1, 3, 8, 3},
    {"one writer, longer", 1, 4, 6, 4},
    {"one writer that fences", 1, 3, 8, 3, .fences = true},
    {"one writer, sleep", 1, 3, 8, 0, .sleep = true},
    {"one writer that fences, sleep", 1, 3, 8, 0, .fences = true, .sleep = true},
    {"one writer that dies", 1, 3, 8, 3, .deaths = true},
    {"one writer that dies, sleep", 1, 2, 8, 0, .deaths = true, .sleep = true},
    {"one writer, passed over", 1, 3, 8, 3, .pass_over = true},
    {"one writer that dies, passed over", 1, 3, 8, 3, .pass_over = true, .deaths = true},
    {"two writers", 2, 1, 8, 2},
    {"two writers that fence", 2, 1, 4, 2, .fences = true},
    {"two writers, sleep", 2, 1, 4, 0, .sleep = true},
    {"two writers that die", 2, 1, 4, 2, .deaths = true},
    {"two writers, passed over", 2, 1, 4, 2, .pass_over = true},
};

static const struct model sound_long[] = {
    {"two writers, two events", 2, 2, 2, 2},
    {"two writers, three passes", 2, 1, 8, 3},
    {"two writers, three passes, passed over", 2, 1, 4, 3, .pass_over = true},
    {"two writers that die, sleep", 2, 1, 4, 0, .deaths = true, .sleep = true},
};

static const struct model broken[] = {
    {"busy cleared before head", 1, 2, 8, 3, .mutation = MODEL_CLEAR_FIRST},
    {"clock before busy", 1, 2, 8, 3, .mutation = MODEL_CLOCK_FIRST},
    {"data after head", 1, 2, 8, 3, .pass_over = true, .mutation = MODEL_DATA_LAST},
    {"no fence after busy", 1, 2, 8, 3, .fences = true, .mutation = MODEL_NO_STORE_FENCE},
    {"no fence after head", 1, 2, 8, 0, .fences = true, .sleep = true,
     .mutation = MODEL_NO_HEAD_FENCE},
    {"no membarrier", 1, 2, 8, 3, .mutation = MODEL_NO_MEMBARRIER},
    {"head before busy", 1, 2, 8, 3, .mutation = MODEL_HEAD_FIRST},
    {"stamp after head", 1, 3, 8, 3, .mutation = MODEL_STAMP_LAST},
    {"tail before the copy", 1, 3, 8, 3, .mutation = MODEL_TAIL_EARLY},
    {"no membarrier before sleep", 1, 2, 8, 0, .sleep = true, .mutation = MODEL_NO_SLEEP_BARRIER},
    {"no last look before sleep", 1, 2, 8, 0, .sleep = true, .mutation = MODEL_NO_LAST_LOOK},
};

static void explore_sound(const struct model *m, uint64_t max)
{
    struct model_result r;

    model_explore(m, max, &r);
    fprintf(stderr, "%s: %ju states, %ju ends\n", m->name, (uintmax_t) r.states,
            (uintmax_t) r.ends);
    ck_assert_msg(!r.violation, "%s: %s", m->name, r.violation);
    ck_assert_msg(!r.incomplete, "%s: more than %ju states", m->name, (uintmax_t) max);
    /* It went where it had to. */
    ck_assert_uint_gt(r.ends, 0);
    ck_assert_uint_gt(r.busy, 0);
    if (m->events > MODEL_CAPACITY)
        ck_assert_uint_gt(r.refused, 0);
    if (m->pass_over)
        ck_assert_uint_gt(r.late, 0);
    else
        ck_assert_uint_eq(r.late, 0);
    if (m->sleep)
        ck_assert_uint_gt(r.slept, 0);
}

START_TEST(sound_protocol)
{
    explore_sound(&sound[_i], STATES_MAX);
}
END_TEST

START_TEST(sound_protocol_long)
{
    if (test_scale(1) < 10)
        test_skip("ETW_TEST_SCALE is below 10");
    explore_sound(&sound_long[_i], STATES_MAX_LONG);
}
END_TEST

START_TEST(broken_protocol)
{
    struct model_result r;

    model_explore(&broken[_i], STATES_MAX / 10, &r);
    fprintf(stderr, "%s: %s\n", broken[_i].name, r.violation ? r.violation : "not noticed");
    ck_assert_msg(r.violation != NULL, "%s: not noticed", broken[_i].name);
}
END_TEST

/* Each rule is broken once. */
START_TEST(all_broken)
{
    bool seen[MODEL_MUTATIONS] = {[MODEL_SOUND] = true};

    for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
        seen[broken[i].mutation] = true;
    for (size_t i = 0; i < MODEL_MUTATIONS; i++)
        ck_assert_msg(seen[i], "mutation %zu", i);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ring-model");
    TCase *t = tcase_create("ring-model");

    tcase_set_timeout(t, 280);
    tcase_add_loop_test(t, sound_protocol, 0, ARRAY_SIZE(sound));
    tcase_add_loop_test(t, sound_protocol_long, 0, ARRAY_SIZE(sound_long));
    tcase_add_loop_test(t, broken_protocol, 0, ARRAY_SIZE(broken));
    tcase_add_test(t, all_broken);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
