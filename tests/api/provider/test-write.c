/* SPDX-License-Identifier: Apache-2.0
 *
 * What the EventWrite functions put into a ring, read back; who gets an event and what is lost.
 */
#include "write-fixture.h"

START_TEST(first_event)
{
    static const struct {
        uint32_t a;
        uint64_t b;
        char c[12];
    } __attribute__((packed)) expected = {0x01020304, 0x1122334455667788, "hello world"};
    uint64_t before = etw_clock_boottime();
    EVENT_DATA_DESCRIPTOR data[4];
    struct pd_event *e;

    EventDataDescCreate(&data[0], &expected.a, 4);
    EventDataDescCreate(&data[1], &expected.b, 8);
    EventDataDescCreate(&data[2], NULL, 0);
    EventDataDescCreate(&data[3], expected.c, 12);
    ck_assert_uint_eq(EventWrite(h, &plain, 4, data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->registration, 0);
    ck_assert_uint_eq(e->slots, 1);
    ck_assert_uint_eq(e->generation, 1);
    ck_assert_uint_eq(e->tid, (uint32_t) syscall(SYS_gettid));
    ck_assert_uint_lt(e->cpu, (unsigned) sysconf(_SC_NPROCESSORS_CONF));
    ck_assert_uint_eq(e->event.header_type, ETL_EVENT64);
    ck_assert_uint_eq(e->event.flags, 0);
    ck_assert_uint_eq(e->event.size, 80 + sizeof(expected));
    ck_assert_uint_ge(e->event.time_stamp, before);
    ck_assert_uint_le(e->event.time_stamp, etw_clock_boottime());
    ck_assert_mem_eq(&e->event.guid, &guid, sizeof(guid));
    ck_assert_mem_eq(&e->event.descriptor, &plain, sizeof(plain));
    ck_assert(etw_guid_is_null(&e->event.activity_id));
    ck_assert_uint_eq(e->event.data_size, sizeof(expected));
    ck_assert_mem_eq(e->event.data, &expected, sizeof(expected));
    pd_events_free(e, 1);
}
END_TEST

START_TEST(no_data)
{
    struct pd_event *e;

    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.size, 80);
    ck_assert_uint_eq(e->event.data_size, 0);
    pd_events_free(e, 1);
}
END_TEST

START_TEST(every_size_of_piece)
{
    uint8_t bytes[300];
    struct pd_event *e;

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t) (i * 7 + 1);
    for (unsigned size = 0; size <= 40; size++) {
        EVENT_DATA_DESCRIPTOR data[3];
        EventDataDescCreate(&data[0], bytes, size);
        EventDataDescCreate(&data[1], bytes + 100, 3);
        EventDataDescCreate(&data[2], bytes + 200, size);
        ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_SUCCESS);
        e = read_one();
        ck_assert_uint_eq(e->event.data_size, 2 * size + 3);
        ck_assert_mem_eq(e->event.data, bytes, size);
        ck_assert_mem_eq(e->event.data + size, bytes + 100, 3);
        ck_assert_mem_eq(e->event.data + size + 3, bytes + 200, size);
        pd_events_free(e, 1);
    }
}
END_TEST

static void check_item(const struct etl_event *e, uint32_t *pos, uint16_t type, const void *data,
                       size_t size)
{
    struct etl_item item;

    ck_assert_int_eq(etl_item_next(e, pos, &item), 1);
    ck_assert_uint_eq(item.type, type);
    ck_assert_uint_eq(item.size, size);
    ck_assert_mem_eq(item.data, data, size);
}

START_TEST(activities_and_items)
{
    GUID activity = {1, 2, 3, {4, 5}};
    GUID other = {9, 8, 7, {6, 5}};
    GUID related = {5, 5, 5, {5}};
    uint8_t metadata[] = {9, 0, 0, 'n', 'a', 'm', 'e', 0, 0};
    uint8_t traits[] = {6, 0, 'p', 'r', 'o', 0};
    uint32_t number = 42;
    EVENT_DATA_DESCRIPTOR data[3];
    struct etl_item item;
    struct pd_event *e;
    uint32_t pos = 0;

    ck_assert_uint_eq(EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &activity), 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_mem_eq(&e->event.activity_id, &activity, sizeof(activity));
    pd_events_free(e, 1);
    ck_assert_uint_eq(EventWriteTransfer(h, &plain, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_mem_eq(&e->event.activity_id, &activity, sizeof(activity));
    ck_assert_uint_eq(e->event.flags, 0);
    pd_events_free(e, 1);

    EventDataDescCreate(&data[0], traits, sizeof(traits));
    data[0].Type = EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA;
    EventDataDescCreate(&data[1], metadata, sizeof(metadata));
    data[1].Type = EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA;
    EventDataDescCreate(&data[2], &number, sizeof(number));
    ck_assert_uint_eq(EventWriteTransfer(h, &plain, &other, &related, 3, data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_mem_eq(&e->event.activity_id, &other, sizeof(other));
    ck_assert_uint_eq(e->event.flags, ETL_EVENT_FLAG_EXTENDED_INFO);
    check_item(&e->event, &pos, ETL_ITEM_RELATED_ACTIVITYID, &related, sizeof(related));
    check_item(&e->event, &pos, ETL_ITEM_PROV_TRAITS, traits, sizeof(traits));
    check_item(&e->event, &pos, ETL_ITEM_EVENT_SCHEMA_TL, metadata, sizeof(metadata));
    ck_assert_int_eq(etl_item_next(&e->event, &pos, &item), 0);
    ck_assert_uint_eq(e->event.data_size, sizeof(number));
    ck_assert_mem_eq(e->event.data, &number, sizeof(number));
    pd_events_free(e, 1);

    /* Without traits of its own an event of that kind has its registration's. */
    ck_assert_uint_eq(EventSetInformation(h, EventProviderSetTraits, traits, sizeof(traits)),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EventWriteTransfer(h, &plain, NULL, NULL, 2, data + 1), ERROR_SUCCESS);
    e = read_one();
    pos = 0;
    check_item(&e->event, &pos, ETL_ITEM_PROV_TRAITS, traits, sizeof(traits));
    check_item(&e->event, &pos, ETL_ITEM_EVENT_SCHEMA_TL, metadata, sizeof(metadata));
    pd_events_free(e, 1);
    /* A plain one has not. */
    ck_assert_uint_eq(EventWrite(h, &plain, 1, data + 2), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.flags, 0);
    pd_events_free(e, 1);
}
END_TEST

START_TEST(types_of_pieces)
{
    uint8_t bytes[8] = {8, 0, 0, 'a', 0};
    EVENT_DATA_DESCRIPTOR data[3];
    BOOLEAN yes = TRUE;
    struct pd_event *e;

    for (unsigned i = 0; i < 3; i++)
        EventDataDescCreate(&data[i], bytes, 8);
    data[0].Type = data[1].Type = EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA;
    ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_INVALID_PARAMETER);
    data[1].Type = EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE;
    ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_NOT_SUPPORTED);
    data[1].Type = 4;
    ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_INVALID_PARAMETER);
    /* What a program that knows no types left there. */
    data[1].Reserved = 0xCCCCCC01;
    data[0].Reserved = 0x100;
    ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.data_size, 24);
    ck_assert_uint_eq(e->event.flags, 0);
    pd_events_free(e, 1);
    ck_assert_uint_eq(EventSetInformation(h, EventProviderUseDescriptorType, &yes, 1),
                      ERROR_SUCCESS);
    ck_assert_uint_eq(EventWrite(h, &plain, 3, data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.data_size, 16);
    ck_assert_uint_eq(e->event.flags, ETL_EVENT_FLAG_EXTENDED_INFO);
    pd_events_free(e, 1);
}
END_TEST

START_TEST(text)
{
    static const WCHAR hello[] = u"hello";
    struct pd_event *e;

    ck_assert_uint_eq(EventWriteString(h, 3, 8, hello), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.flags, 4);
    ck_assert_uint_eq(e->event.level, 3);
    ck_assert_uint_eq(e->event.descriptor.keyword, 8);
    ck_assert_uint_eq(e->event.data_size, sizeof(hello));
    ck_assert_mem_eq(e->event.data, hello, sizeof(hello));
    pd_events_free(e, 1);
}
END_TEST

START_TEST(text_that_is_too_long)
{
    WCHAR *s = malloc(100000 * sizeof(WCHAR));

    ck_assert_ptr_nonnull(s);
    for (unsigned i = 0; i < 99999; i++)
        s[i] = u'x';
    s[99999] = 0;
    ck_assert_uint_eq(EventWriteString(h, 3, 8, s), ERROR_ARITHMETIC_OVERFLOW);
    free(s);
}
END_TEST

START_TEST(sizes)
{
    uint8_t *bytes = calloc(1, 70000);
    EVENT_DATA_DESCRIPTOR data;
    struct pd_connection *c = pd_connection(d);
    struct pd_event *e;

    ck_assert_ptr_nonnull(bytes);
    EventDataDescCreate(&data, bytes, LARGEST - 80);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->event.size, LARGEST);
    pd_events_free(e, 1);
    data.Size++;
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_MORE_DATA);
    ck_assert_uint_eq(pd_lost(d, c, 5, SHM_LOST_TOO_BIG), 1);
    data.Size = 65535 - 80;
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_MORE_DATA);
    ck_assert_uint_eq(pd_lost(d, c, 5, SHM_LOST_TOO_BIG), 2);
    data.Size++;
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_ARITHMETIC_OVERFLOW);
    data.Size = UINT32_MAX;
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_ARITHMETIC_OVERFLOW);
    ck_assert_uint_eq(pd_lost(d, c, 5, SHM_LOST_TOO_BIG), 2);
    read_none();
    free(bytes);
}
END_TEST

START_TEST(who_wants_it)
{
    struct shm_slot_config slots[3] = {open_slot, open_slot, open_slot};
    static const uint16_t ids[] = {7, 9};
    EVENT_DESCRIPTOR x = plain;
    struct pd_event *e;

    slots[0].level = 3;
    slots[0].any = 4;
    slots[1].level = 5;
    slots[1].any = 2;
    slots[2].level = 5;
    slots[2].any = 8;
    slots[2].filtered = true;
    slots[2].filter_in = true;
    slots[2].ids = ids;
    slots[2].n_ids = 2;
    pd_enable(d, &id, slots, 3, 0);
    ck_assert(EventEnabled(h, &plain));
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->slots, 2);
    pd_events_free(e, 1);
    x.Level = 6;
    ck_assert(!EventEnabled(h, &x));
    ck_assert_uint_eq(EventWrite(h, &x, 0, NULL), ERROR_SUCCESS);
    x.Level = 5;
    x.Keyword = 16;
    ck_assert(!EventEnabled(h, &x));
    ck_assert_uint_eq(EventWrite(h, &x, 0, NULL), ERROR_SUCCESS);
    /* The words say yes, the table no. */
    x.Keyword = 4;
    ck_assert(EventProviderEnabled(h, 5, 4));
    ck_assert(!EventEnabled(h, &x));
    ck_assert_uint_eq(EventWrite(h, &x, 0, NULL), ERROR_SUCCESS);
    x.Keyword = 8;
    x.Id = 8;
    ck_assert(!EventEnabled(h, &x));
    ck_assert_uint_eq(EventWrite(h, &x, 0, NULL), ERROR_SUCCESS);
    read_none();
    x.Id = 9;
    x.Keyword = 10;
    ck_assert_uint_eq(EventWrite(h, &x, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->slots, 6);
    pd_events_free(e, 1);
    /* EventWriteEx leaves sessions out. */
    ck_assert_uint_eq(EventWriteEx(h, &x, 4, 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->slots, 2);
    pd_events_free(e, 1);
    ck_assert_uint_eq(EventWriteEx(h, &x, 6, 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    read_none();
    pd_enable(d, &id, NULL, 0, 0);
    ck_assert(!EventProviderEnabled(h, 0, 0));
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    read_none();
}
END_TEST

START_TEST(sessions_that_cannot_take_it)
{
    struct shm_slot_config slots[3] = {open_slot, open_slot, open_slot};
    struct pd_connection *c = pd_connection(d);
    uint8_t bytes[200] = {0};
    EVENT_DATA_DESCRIPTOR data;
    struct pd_event *e;

    EventDataDescCreate(&data, bytes, sizeof(bytes));
    for (unsigned i = 0; i < 3; i++)
        slots[i].counter = (uint16_t) (10 + i);
    slots[0].largest_event = 100;
    pd_enable(d, &id, slots, 3, 0);
    /* One that cannot: none gets it. */
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_MORE_DATA);
    read_none();
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(pd_lost(d, c, 10 + i, SHM_LOST_TOO_BIG), 1);
    /* But for one that is independent. */
    slots[2].independent = true;
    pd_enable(d, &id, slots, 3, 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_MORE_DATA);
    e = read_one();
    ck_assert_uint_eq(e->slots, 4);
    pd_events_free(e, 1);
    ck_assert_uint_eq(pd_lost(d, c, 10, SHM_LOST_TOO_BIG), 2);
    ck_assert_uint_eq(pd_lost(d, c, 11, SHM_LOST_TOO_BIG), 2);
    ck_assert_uint_eq(pd_lost(d, c, 12, SHM_LOST_TOO_BIG), 1);
    /* An independent one that cannot is nobody else's matter. */
    slots[2].independent = false;
    slots[0].independent = true;
    pd_enable(d, &id, slots, 3, 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->slots, 6);
    pd_events_free(e, 1);
    ck_assert_uint_eq(pd_lost(d, c, 10, SHM_LOST_TOO_BIG), 3);
    /* Full ones. */
    slots[0] = open_slot;
    slots[0].counter = 10;
    slots[1].state = SHM_SLOT_FULL;
    pd_enable(d, &id, slots, 2, 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), (ULONG) STATUS_LOG_FILE_FULL);
    read_none();
    ck_assert_uint_eq(pd_lost(d, c, 10, SHM_LOST_SESSION_FULL), 1);
    ck_assert_uint_eq(pd_lost(d, c, 11, SHM_LOST_SESSION_FULL), 1);
    slots[1].independent = true;
    pd_enable(d, &id, slots, 2, 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    e = read_one();
    ck_assert_uint_eq(e->slots, 1);
    pd_events_free(e, 1);
    ck_assert_uint_eq(pd_lost(d, c, 11, SHM_LOST_SESSION_FULL), 2);
    /* Alone, it has nothing but its own refusal. */
    pd_enable(d, &id, slots + 1, 1, 0);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), (ULONG) STATUS_LOG_FILE_FULL);
    read_none();
}
END_TEST

START_TEST(event_keys)
{
    struct shm_slot_config slot = open_slot;
    uint64_t keys[2];

    slot.items = SHM_ITEM_EVENT_KEY;
    pd_enable(d, &id, &slot, 1, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct etl_item item;
        struct pd_event *e;
        uint32_t pos = 0;
        ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
        e = read_one();
        ck_assert_int_eq(etl_item_next(&e->event, &pos, &item), 1);
        ck_assert_uint_eq(item.type, ETL_ITEM_EVENT_KEY);
        ck_assert_uint_eq(item.size, 8);
        memcpy(&keys[i], item.data, 8);
        ck_assert_int_eq(etl_item_next(&e->event, &pos, &item), 0);
        pd_events_free(e, 1);
    }
    ck_assert_uint_ne(keys[0], keys[1]);
}
END_TEST

START_TEST(full_ring)
{
    struct pd_connection *c = pd_connection(d);
    uint8_t bytes[1000] = {0};
    EVENT_DATA_DESCRIPTOR data;
    uint64_t written = 0;
    struct pd_event *e;
    size_t n;

    EventDataDescCreate(&data, bytes, sizeof(bytes));
    while (EventWrite(h, &plain, 1, &data) == ERROR_SUCCESS)
        written++;
    ck_assert_uint_ge(written, RING / 1200);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_NOT_ENOUGH_MEMORY);
    ck_assert_uint_eq(pd_lost(d, c, 5, SHM_LOST_RING_FULL), 2);
    n = pd_read(d, c, &e);
    ck_assert_uint_eq(n, written);
    pd_events_free(e, n);
    ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    pd_events_free(read_one(), 1);
}
END_TEST

static bool has_wakes(struct provider_daemon *daemon, void *arg)
{
    return daemon->connections[0].wakes >= *(unsigned *) arg;
}

START_TEST(wakes)
{
    struct pd_connection *c = pd_connection(d);
    uint8_t bytes[1000] = {0};
    EVENT_DATA_DESCRIPTOR data;
    unsigned expected = 1;
    struct pd_event *e;
    size_t n;

    EventDataDescCreate(&data, bytes, sizeof(bytes));
    /* Awake: none. */
    for (unsigned i = 0; i < RING / 1096 - 4; i++)
        ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    n = pd_read(d, c, &e);
    pd_events_free(e, n);
    ck_assert_uint_eq(c->wakes, 0);
    /* Asleep: one at the half. */
    pd_sleep(d, c, 2);
    for (unsigned i = 0; i < RING / 2 / 1096 - 4; i++)
        ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    ck_assert_uint_eq(c->wakes, 0);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_uint_eq(EventWrite(h, &plain, 1, &data), ERROR_SUCCESS);
    pd_wait(d, has_wakes, &expected);
    n = pd_read(d, c, &e);
    pd_events_free(e, n);
    /* Low latency: at the first. */
    pd_sleep(d, c, 4 | SHM_SLEEP_LOW_LATENCY);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    expected = 2;
    pd_wait(d, has_wakes, &expected);
    ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
    (void) usleep(50000);
    ck_assert_uint_eq(c->wakes, 2);
    /* A new daemon begins its numbers anew. */
    pd_restarted(d);
    for (unsigned i = 0; i < TEST_HANG_LIMIT_S * 1000 && c->wakes < 3; i++) {
        ck_assert_uint_eq(EventWrite(h, &plain, 0, NULL), ERROR_SUCCESS);
        (void) usleep(1000);
    }
    ck_assert_uint_eq(c->wakes, 3);
    n = pd_read(d, c, &e);
    pd_events_free(e, n);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("provider-write");
    TCase *t = tcase_create("write");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, first_event);
    tcase_add_test(t, no_data);
    tcase_add_test(t, every_size_of_piece);
    tcase_add_test(t, activities_and_items);
    tcase_add_test(t, types_of_pieces);
    tcase_add_test(t, text);
    tcase_add_test(t, text_that_is_too_long);
    tcase_add_test(t, sizes);
    tcase_add_test(t, who_wants_it);
    tcase_add_test(t, sessions_that_cannot_take_it);
    tcase_add_test(t, event_keys);
    tcase_add_test(t, full_ring);
    tcase_add_test(t, wakes);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return test_main(suite());
}
