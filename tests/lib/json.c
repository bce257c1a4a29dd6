/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON getters that fail the test with the path they looked for, and the loss identity. See test.h.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_object *parse(const char *text, size_t len)
{
    struct json_tokener *t = json_tokener_new();
    struct json_object *o;

    if (!t)
        ck_abort_msg("out of memory");
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    /* The NUL ends numbers at the end of the text. */
    char *copy = strndup(text, len);
    if (!copy)
        ck_abort_msg("out of memory");
    o = json_tokener_parse_ex(t, copy, (int) len + 1);
    if (!o || json_tokener_get_error(t) != json_tokener_success)
        ck_abort_msg("not JSON (%s): %.400s", json_tokener_error_desc(json_tokener_get_error(t)),
                     copy);
    free(copy);
    json_tokener_free(t);
    return o;
}

struct json_object *test_json(const char *text)
{
    return parse(text, strlen(text));
}

struct json_object *test_json_lines(const char *text)
{
    struct json_object *a = json_object_new_array();

    while (*text) {
        size_t len = strcspn(text, "\n");

        if (len > 0)
            json_object_array_add(a, parse(text, len));
        text += len;
        text += *text == '\n';
    }
    return a;
}

static struct json_object *find(struct json_object *o, const char *path)
{
    while (o && *path) {
        size_t len = strcspn(path, ".");
        char key[128];

        if (len >= sizeof(key) || !json_object_is_type(o, json_type_object))
            return NULL;
        memcpy(key, path, len);
        key[len] = '\0';
        if (!json_object_object_get_ex(o, key, &o))
            return NULL;
        path += len;
        path += *path == '.';
    }
    return o;
}

bool test_json_has(struct json_object *o, const char *path)
{
    return find(o, path) != NULL;
}

struct json_object *test_json_get(struct json_object *o, const char *path)
{
    struct json_object *v = find(o, path);

    if (!v)
        ck_abort_msg("no '%s' in %.2000s", path, json_object_to_json_string(o));
    return v;
}

uint64_t test_json_u64(struct json_object *o, const char *path)
{
    struct json_object *v = test_json_get(o, path);

    if (!json_object_is_type(v, json_type_int))
        ck_abort_msg("'%s' is not an integer: %s", path, json_object_to_json_string(v));
    return json_object_get_uint64(v);
}

bool test_json_bool(struct json_object *o, const char *path)
{
    struct json_object *v = test_json_get(o, path);

    if (!json_object_is_type(v, json_type_boolean))
        ck_abort_msg("'%s' is not a boolean: %s", path, json_object_to_json_string(v));
    return json_object_get_boolean(v);
}

const char *test_json_str(struct json_object *o, const char *path)
{
    struct json_object *v = test_json_get(o, path);

    if (!json_object_is_type(v, json_type_string))
        ck_abort_msg("'%s' is not a string: %s", path, json_object_to_json_string(v));
    return json_object_get_string(v);
}

void test_loss_identity_object(struct json_object *session)
{
    uint64_t written = test_json_u64(session, "written");
    uint64_t recorded = test_json_u64(session, "recorded");
    struct json_object *lost = test_json_get(session, "lost");
    uint64_t sum = 0;

    ck_assert(json_object_is_type(lost, json_type_object));
    json_object_object_foreach(lost, cause, count)
    {
        ck_assert_msg(json_object_is_type(count, json_type_int), "lost.%s is no number", cause);
        sum += json_object_get_uint64(count);
    }
    ck_assert_msg(written == recorded + sum,
                  "loss identity: written %llu, recorded %llu, lost %llu: %s",
                  (unsigned long long) written, (unsigned long long) recorded,
                  (unsigned long long) sum, json_object_to_json_string(session));
    ck_assert(test_json_u64(session, "overwritten") <= recorded);
}

void test_loss_identity(const char *session)
{
    struct test_output o;
    struct json_object *s;

    test_etwctl_ok(&o, "show", session, "--json");
    s = test_json(o.out);
    test_loss_identity_object(s);
    json_object_put(s);
    test_output_done(&o);
}
