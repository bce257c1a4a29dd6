/* SPDX-License-Identifier: Apache-2.0
 *
 * Of TraceLoggingProvider.h, not for programs: what the macros there are made of. Nothing here is
 * an interface; names may change with every version.
 *
 * Each argument of TraceLoggingWrite becomes six words in parentheses,
 *
 *   (metadata kind, (its words), data kind, (its words), option kind, its value)
 *
 * and each ETW_TLG_..._OP takes one of the three parts of every argument:
 *
 *   MEMBERS, INITS   the metadata, as members of a packed structure in read-only data and as their
 *                    initial values: name, in-type [, out-type] [, tag] [, count]
 *   TYPES            C++: a typedef of what the value of TraceLoggingValue is written as
 *   PIECES           how many data descriptors, as a sum
 *   VALUES, PUTS     the data. C: a local variable, and its descriptors. C++: arguments of one
 *                    constructor, so that temporaries live until the event is written
 *   LEVEL, KEYWORD, OPCODE, CHANNEL, TAG   options, as an expression goes on
 *
 * Numbers of the metadata are little-endian, so the in-type and the out-type are one member of 16
 * bits.
 */
#ifndef ETW_TRACELOGGING_H
#define ETW_TRACELOGGING_H

#include "etw_types.h"
#include "evntprov.h"

#include "etw_tracelogging_each.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "TraceLoggingProvider.h: metadata are little-endian"
#endif

#ifdef __cplusplus
#define ETW_TLG_ASSERT(what, text) static_assert(what, text)
#define ETW_TLG_CONST static constexpr
#else
#define ETW_TLG_ASSERT(what, text) _Static_assert(what, text)
#define ETW_TLG_CONST static const
#endif

#define ETW_TLG_UNWRAP(...) __VA_ARGS__
#define ETW_TLG_PASTE(a, b) ETW_TLG_PASTE_(a, b)
#define ETW_TLG_PASTE_(a, b) a##b

/* ---- data ---- */

ETW_BEGIN_DECLS

/* One piece, and two: a count and what it counts. */
struct etw_tlg_bytes {
    const void *data;
    ULONG size;
    ULONG type;
};
struct etw_tlg_counted {
    const void *data;
    ULONG size;
    USHORT count;
};

/* Sizes beyond what a descriptor holds are beyond what an event holds: the write refuses them. */
FORCEINLINE ULONG etw_tlg_size(size_t size)
{
    return size < 0xFFFFFFFFu ? (ULONG) size : 0xFFFFFFFFu;
}

FORCEINLINE struct etw_tlg_bytes etw_tlg_data(const void *data, size_t size, ULONG type)
{
    struct etw_tlg_bytes b = {data, etw_tlg_size(size), type};
    return b;
}

/* Counts have 16 bits. An event with more is larger than 64 KB, or it is cut to what is counted. */
FORCEINLINE struct etw_tlg_counted etw_tlg_elements(const void *data, size_t count, size_t size)
{
    USHORT n = count < 0xFFFFu ? (USHORT) count : (USHORT) 0xFFFFu;
    struct etw_tlg_counted c = {data, etw_tlg_size(n * size), n};
    return c;
}

FORCEINLINE struct etw_tlg_counted etw_tlg_binary(const void *data, size_t size)
{
    return etw_tlg_elements(data, size, 1);
}

FORCEINLINE struct etw_tlg_counted etw_tlg_counted_char(const char *text, size_t count)
{
    return etw_tlg_elements(text, count, 1);
}

/* The count of counted text is in bytes. */
FORCEINLINE struct etw_tlg_counted etw_tlg_counted_utf16(const void *text, size_t count)
{
    size_t n = count < 0x7FFFu ? count : 0x7FFFu;
    struct etw_tlg_counted c = {text, (ULONG) (n * 2), (USHORT) (n * 2)};
    return c;
}

FORCEINLINE struct etw_tlg_counted etw_tlg_counted_char16_t(const char16_t *text, size_t count)
{
    return etw_tlg_counted_utf16(text, count);
}

FORCEINLINE struct etw_tlg_counted etw_tlg_counted_etw_wchar(const etw_wchar *text, size_t count)
{
    return etw_tlg_counted_utf16(text, count);
}

/* Text with its end; NULL is empty text. */
FORCEINLINE struct etw_tlg_bytes etw_tlg_text_char(const char *text)
{
    return text ? etw_tlg_data(text, strlen(text) + 1, 0) : etw_tlg_data("", 1, 0);
}

FORCEINLINE struct etw_tlg_bytes etw_tlg_text_char16_t(const char16_t *text)
{
    size_t n = 0;

    if (!text)
        return etw_tlg_data(u"", 2, 0);
    while (text[n])
        n++;
    return etw_tlg_data(text, (n + 1) * 2, 0);
}

FORCEINLINE struct etw_tlg_bytes etw_tlg_text_etw_wchar(const etw_wchar *text)
{
    size_t n = 0;

    if (!text)
        return etw_tlg_data(u"", 2, 0);
    while (text[n])
        n++;
    return etw_tlg_data(text, (n + 1) * 2, 0);
}

/* A SID is as long as its second byte says. */
FORCEINLINE struct etw_tlg_bytes etw_tlg_sid(const void *sid)
{
    return etw_tlg_data(sid, 8 + 4 * (size_t) ((const UCHAR *) sid)[1], 0);
}

FORCEINLINE void etw_tlg_put(EVENT_DATA_DESCRIPTOR *d, const void *data, ULONG size, ULONG type)
{
    d->Ptr = (ULONGLONG) (ULONG_PTR) data;
    d->Size = size;
    d->Reserved = type;
}

/* ---- providers ---- */

/* A provider's storage. RegHandle: 0 while it is not registered. */
struct _tlgProvider_t {
    REGHANDLE RegHandle;
    const void *Traits; /* USHORT size, name, traits */
    GUID Id;
};

/* The handle points to constant data for the programs only. */
FORCEINLINE struct _tlgProvider_t *etw_tlg_state(const struct _tlgProvider_t *provider)
{
    return (struct _tlgProvider_t *) (ULONG_PTR) provider;
}

FORCEINLINE REGHANDLE etw_tlg_handle(const struct _tlgProvider_t *provider)
{
    return __atomic_load_n(&provider->RegHandle, __ATOMIC_RELAXED);
}

FORCEINLINE USHORT etw_tlg_blob_size(const void *blob)
{
    USHORT size;
    memcpy(&size, blob, sizeof(size));
    return size;
}

/* Writes: data[0] and data[1] are for the metadata. */
FORCEINLINE void etw_tlg_describe(const struct _tlgProvider_t *provider, const void *metadata,
                                  EVENT_DATA_DESCRIPTOR *data)
{
    etw_tlg_put(&data[0], provider->Traits, etw_tlg_blob_size(provider->Traits),
                EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA);
    etw_tlg_put(&data[1], metadata, etw_tlg_blob_size(metadata),
                EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA);
}

FORCEINLINE void etw_tlg_write(const struct _tlgProvider_t *provider, PCEVENT_DESCRIPTOR event,
                               const void *metadata, ULONG n, EVENT_DATA_DESCRIPTOR *data,
                               LPCGUID activity, LPCGUID related)
{
    etw_tlg_describe(provider, metadata, data);
    (void) TLG_EVENT_WRITE_TRANSFER(etw_tlg_handle(provider), event, activity, related, n, data);
}

FORCEINLINE void etw_tlg_write_ex(const struct _tlgProvider_t *provider, PCEVENT_DESCRIPTOR event,
                                  const void *metadata, ULONG n, EVENT_DATA_DESCRIPTOR *data,
                                  ULONG64 filter, ULONG flags, LPCGUID activity, LPCGUID related)
{
    etw_tlg_describe(provider, metadata, data);
    (void) TLG_EVENT_WRITE_EX(etw_tlg_handle(provider), event, filter, flags, activity, related, n,
                              data);
}

ETW_END_DECLS

/* clang-format off */

/* ---- arguments ----
 * EtwTlgNone stands for a part that an argument does not have. An argument that is empty, as macros
 * leave them, comes as the one word ETW_TLG_UNWRAP and has no part at all. */
#define ETW_TLG_NONES EtwTlgNone, EtwTlgNone, EtwTlgNone, EtwTlgNone, EtwTlgNone, EtwTlgNone, 0
#define ETW_TLG_END (EtwTlgNone)
#define ETW_TLG_FIELD(mk, ma, dk, da) (mk, ma, dk, da, EtwTlgNone, EtwTlgNone)
#define ETW_TLG_OPTION(ok, oa) (EtwTlgNone, EtwTlgNone, EtwTlgNone, EtwTlgNone, ok, oa)

#define ETW_TLG_PART_META(prefix, n, mk, ma, dk, da, ok, oa, ...) prefix##mk(n, ma)
#define ETW_TLG_PART_DATA(prefix, n, mk, ma, dk, da, ok, oa, ...) prefix##dk(n, da)
#define ETW_TLG_PART_OPTION(prefix, n, mk, ma, dk, da, ok, oa, ...) prefix##ok(n, oa)
#define ETW_TLG_CALL(part, ...) part(__VA_ARGS__)
#define ETW_TLG_WITH(macro, ...) macro(__VA_ARGS__)

#define ETW_TLG_MEMBERS_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_META, ETW_TLG_M_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_INITS_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_META, ETW_TLG_I_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_TYPES_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_META, ETW_TLG_T_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_PIECES_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_DATA, ETW_TLG_N_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_VALUES_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_DATA, ETW_TLG_V_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_PUTS_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_DATA, ETW_TLG_P_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_LEVEL_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_OPTION, ETW_TLG_LEVEL_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_KEYWORD_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_OPTION, ETW_TLG_KEYWORD_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_OPCODE_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_OPTION, ETW_TLG_OPCODE_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_CHANNEL_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_OPTION, ETW_TLG_CHANNEL_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)
#define ETW_TLG_TAG_OP(n, x) ETW_TLG_CALL(ETW_TLG_PART_OPTION, ETW_TLG_TAG_, n, ETW_TLG_UNWRAP x, ETW_TLG_NONES)

/* ---- options: the last level, opcode and channel count; keywords and tags add up ---- */
#define ETW_TLG_LEVEL_EtwTlgLevel(n, v) * 0 + (v)
#define ETW_TLG_LEVEL_EtwTlgKeyword(n, v)
#define ETW_TLG_LEVEL_EtwTlgOpcode(n, v)
#define ETW_TLG_LEVEL_EtwTlgChannel(n, v)
#define ETW_TLG_LEVEL_EtwTlgTag(n, v)
#define ETW_TLG_LEVEL_EtwTlgNone(n, v)
#define ETW_TLG_KEYWORD_EtwTlgLevel(n, v)
#define ETW_TLG_KEYWORD_EtwTlgKeyword(n, v) | (v)
#define ETW_TLG_KEYWORD_EtwTlgOpcode(n, v)
#define ETW_TLG_KEYWORD_EtwTlgChannel(n, v)
#define ETW_TLG_KEYWORD_EtwTlgTag(n, v)
#define ETW_TLG_KEYWORD_EtwTlgNone(n, v)
#define ETW_TLG_OPCODE_EtwTlgLevel(n, v)
#define ETW_TLG_OPCODE_EtwTlgKeyword(n, v)
#define ETW_TLG_OPCODE_EtwTlgOpcode(n, v) * 0 + (v)
#define ETW_TLG_OPCODE_EtwTlgChannel(n, v)
#define ETW_TLG_OPCODE_EtwTlgTag(n, v)
#define ETW_TLG_OPCODE_EtwTlgNone(n, v)
#define ETW_TLG_CHANNEL_EtwTlgLevel(n, v)
#define ETW_TLG_CHANNEL_EtwTlgKeyword(n, v)
#define ETW_TLG_CHANNEL_EtwTlgOpcode(n, v)
#define ETW_TLG_CHANNEL_EtwTlgChannel(n, v) * 0 + (v)
#define ETW_TLG_CHANNEL_EtwTlgTag(n, v)
#define ETW_TLG_CHANNEL_EtwTlgNone(n, v)
#define ETW_TLG_TAG_EtwTlgLevel(n, v)
#define ETW_TLG_TAG_EtwTlgKeyword(n, v)
#define ETW_TLG_TAG_EtwTlgOpcode(n, v)
#define ETW_TLG_TAG_EtwTlgChannel(n, v)
#define ETW_TLG_TAG_EtwTlgTag(n, v) | (v)
#define ETW_TLG_TAG_EtwTlgNone(n, v)

/* ---- metadata ---- */

/* A tag: 28 bits, seven a byte from the top, each byte but the last with its high bit set. Those
 * whose low bits are 0 take one byte or two. */
#define ETW_TLG_TAG_VALUE(tag) \
    (((tag) & 0x1FFFFFu) == 0 ? ((tag) >> 21 & 0x7Fu) : \
     ((tag) & 0x3FFFu) == 0 ? (0x80u | ((tag) >> 21 & 0x7Fu) | ((tag) >> 14 & 0x7Fu) << 8) : \
     (0x808080u | ((tag) >> 21 & 0x7Fu) | ((tag) >> 14 & 0x7Fu) << 8 | \
      ((tag) >> 7 & 0x7Fu) << 16 | ((tag) & 0x7Fu) << 24))

/* In-type, or in-type and out-type, or these with the mark that a tag follows. First digit: how
 * many there are; second: whether there is a tag. */
#define ETW_TLG_TYPE_10 unsigned char
#define ETW_TLG_TYPE_20 unsigned short
#define ETW_TLG_TYPE_11 unsigned short
#define ETW_TLG_TYPE_21 unsigned short
#define ETW_TLG_TYPES_10(in, out) (in)
#define ETW_TLG_TYPES_20(in, out) (0x80 | (in) | (out) << 8)
#define ETW_TLG_TYPES_11(in, out) (0x8080 | (in))
#define ETW_TLG_TYPES_21(in, out) (0x8080 | (in) | (out) << 8)
#define ETW_TLG_TAG_MEMBER_0(n, tag)
#define ETW_TLG_TAG_MEMBER_1(n, tag) ETW_TLG_TAG_TYPE((0u | (tag))) etw_tag##n;
#define ETW_TLG_TAG_INIT_0(tag)
#define ETW_TLG_TAG_INIT_1(tag) , ETW_TLG_TAG_VALUE((0u | (tag)))
#define ETW_TLG_COUNT_MEMBER_0(n, count)
#define ETW_TLG_COUNT_MEMBER_1(n, count) unsigned short etw_count##n; \
    ETW_TLG_ASSERT((count) > 0 && (count) <= 0xFFFF, "a fixed array has 1 to 65535 elements");
#define ETW_TLG_COUNT_INIT_0(count)
#define ETW_TLG_COUNT_INIT_1(count) , (count)

/* EtwTlgPlain: (types, in, out, is there a count, count, name, is there a tag, tag). */
#define ETW_TLG_M_EtwTlgPlain(n, ma) ETW_TLG_WITH(ETW_TLG_M_PLAIN, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_M_PLAIN(n, types, in, out, cf, count, name, tf, tag) \
    char etw_name##n[sizeof(name)]; ETW_TLG_TYPE_##types##tf etw_type##n; \
    ETW_TLG_TAG_MEMBER_##tf(n, tag) ETW_TLG_COUNT_MEMBER_##cf(n, count)
#define ETW_TLG_I_EtwTlgPlain(n, ma) ETW_TLG_WITH(ETW_TLG_I_PLAIN, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_I_PLAIN(n, types, in, out, cf, count, name, tf, tag) \
    , name, ETW_TLG_TYPES_##types##tf(in, out) ETW_TLG_TAG_INIT_##tf(tag) \
    ETW_TLG_COUNT_INIT_##cf(count)
#define ETW_TLG_T_EtwTlgPlain(n, ma)

/* EtwTlgStruct: (array bits, fields, name, is there a tag, tag). The out-type is the number. */
#define ETW_TLG_M_EtwTlgStruct(n, ma) ETW_TLG_WITH(ETW_TLG_M_STRUCT, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_M_STRUCT(n, array, fields, name, tf, tag) \
    char etw_name##n[sizeof(name)]; unsigned short etw_type##n; ETW_TLG_TAG_MEMBER_##tf(n, tag) \
    ETW_TLG_ASSERT((fields) > 0 && (fields) <= 127, "a structure has 1 to 127 fields");
#define ETW_TLG_I_EtwTlgStruct(n, ma) ETW_TLG_WITH(ETW_TLG_I_STRUCT, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_I_STRUCT(n, array, fields, name, tf, tag) \
    , name, ETW_TLG_TYPES_2##tf(24 | (array), (fields)) ETW_TLG_TAG_INIT_##tf(tag)
#define ETW_TLG_T_EtwTlgStruct(n, ma)

/* EtwTlgCustom: (protocol, (schema), bytes of it, name, is there a tag, tag). */
#define ETW_TLG_M_EtwTlgCustom(n, ma) ETW_TLG_WITH(ETW_TLG_M_CUSTOM, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_M_CUSTOM(n, protocol, schema, size, name, tf, tag) \
    char etw_name##n[sizeof(name)]; ETW_TLG_TYPE_1##tf etw_type##n; \
    ETW_TLG_TAG_MEMBER_##tf(n, tag) unsigned short etw_count##n; unsigned char etw_schema##n[size]; \
    ETW_TLG_ASSERT((protocol) >= 0 && (protocol) <= 31, "a protocol is 0 to 31");
#define ETW_TLG_I_EtwTlgCustom(n, ma) ETW_TLG_WITH(ETW_TLG_I_CUSTOM, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_I_CUSTOM(n, protocol, schema, size, name, tf, tag) \
    , name, ETW_TLG_TYPES_1##tf(0x60 | (protocol), 0) ETW_TLG_TAG_INIT_##tf(tag), (size), \
    {ETW_TLG_UNWRAP schema}
#define ETW_TLG_T_EtwTlgCustom(n, ma)

/* EtwTlgAuto: (value, name, is there a tag, tag). The types follow from the value. */
#define ETW_TLG_M_EtwTlgAuto(n, ma) ETW_TLG_WITH(ETW_TLG_M_AUTO, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_M_AUTO(n, value, name, tf, tag) \
    char etw_name##n[sizeof(name)]; ETW_TLG_AUTO_TYPE_##tf(n, value) etw_type##n; \
    ETW_TLG_TAG_MEMBER_##tf(n, tag)
#define ETW_TLG_I_EtwTlgAuto(n, ma) ETW_TLG_WITH(ETW_TLG_I_AUTO, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_I_AUTO(n, value, name, tf, tag) \
    , name, ETW_TLG_AUTO_TYPES_##tf(n, value) ETW_TLG_TAG_INIT_##tf(tag)
#define ETW_TLG_T_EtwTlgAuto(n, ma) ETW_TLG_WITH(ETW_TLG_T_AUTO, n, ETW_TLG_UNWRAP ma)

#define ETW_TLG_M_EtwTlgNone(n, ma)
#define ETW_TLG_I_EtwTlgNone(n, ma)
#define ETW_TLG_T_EtwTlgNone(n, ma)
#define ETW_TLG_M_ETW_TLG_UNWRAP(n, ma)
#define ETW_TLG_I_ETW_TLG_UNWRAP(n, ma)
#define ETW_TLG_T_ETW_TLG_UNWRAP(n, ma)

/* ---- data: how many pieces ---- */
#define ETW_TLG_N_EtwTlgScalar(n, da) + 1
#define ETW_TLG_N_EtwTlgAuto(n, da) + 1
#define ETW_TLG_N_EtwTlgText(n, da) + 1
#define ETW_TLG_N_EtwTlgSid(n, da) + 1
#define ETW_TLG_N_EtwTlgFixedArray(n, da) + 1
#define ETW_TLG_N_EtwTlgBytes(n, da) + 1
#define ETW_TLG_N_EtwTlgCounted(n, da) + 2
#define ETW_TLG_N_EtwTlgBinary(n, da) + 2
#define ETW_TLG_N_EtwTlgBuffer(n, da) + 2
#define ETW_TLG_N_EtwTlgArray(n, da) + 2
#define ETW_TLG_N_EtwTlgNone(n, da)

#ifdef __cplusplus
#include "etw_tracelogging_cxx.h"
#else
#include "etw_tracelogging_c.h"
#endif

/* ---- providers ---- */
#define ETW_TLG_GUID(a, b, c, d, e, f, g, h, i, j, k) {a, b, c, {d, e, f, g, h, i, j, k}}

/* EtwTlgTrait: (type, C type, (value)). */
#define ETW_TLG_M_EtwTlgTrait(n, ma) ETW_TLG_WITH(ETW_TLG_M_TRAIT, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_M_TRAIT(n, type, ctype, value) \
    unsigned short etw_size##n; unsigned char etw_type##n; ctype etw_value##n;
#define ETW_TLG_I_EtwTlgTrait(n, ma) ETW_TLG_WITH(ETW_TLG_I_TRAIT, n, ETW_TLG_UNWRAP ma)
#define ETW_TLG_I_TRAIT(n, type, ctype, value) , 3 + sizeof(ctype), (type), ETW_TLG_UNWRAP value

#define ETW_TLG_STORAGE(...) ETW_TLG_STORAGE_(__VA_ARGS__)
#define ETW_TLG_STORAGE_(storage, name, id, ...) \
    static const struct etw_traits_##storage { \
        unsigned short etw_size; \
        char etw_name[sizeof(name)]; \
        ETW_TLG_EACH(ETW_TLG_MEMBERS_OP, __VA_ARGS__) \
    } __attribute__((packed)) etw_traits_##storage = { \
        sizeof(struct etw_traits_##storage), \
        name \
        ETW_TLG_EACH(ETW_TLG_INITS_OP, __VA_ARGS__)}; \
    static struct _tlgProvider_t storage = {0, &etw_traits_##storage, ETW_TLG_GUID id}

/* ---- writing ---- */

/* Call: the function and its arguments after the data. */
#define ETW_TLG_WRITE(function, call, provider, ...) \
    ETW_TLG_WRITE_(function, call, provider, __VA_ARGS__)
#define ETW_TLG_WRITE_(function, call, provider, name, ...) \
    do { \
        ETW_TLG_CONST EVENT_DESCRIPTOR etw_tlg_event = { \
            0, \
            0, \
            11 ETW_TLG_EACH(ETW_TLG_CHANNEL_OP, __VA_ARGS__), \
            5 ETW_TLG_EACH(ETW_TLG_LEVEL_OP, __VA_ARGS__), \
            0 ETW_TLG_EACH(ETW_TLG_OPCODE_OP, __VA_ARGS__), \
            0, \
            0ull ETW_TLG_EACH(ETW_TLG_KEYWORD_OP, __VA_ARGS__)}; \
        const struct _tlgProvider_t *const etw_tlg_provider = (provider); \
        if (etw_provider_wants(etw_tlg_handle(etw_tlg_provider), etw_tlg_event.Level, \
                               etw_tlg_event.Keyword)) { \
            ETW_TLG_EACH(ETW_TLG_TYPES_OP, __VA_ARGS__) \
            ETW_TLG_CONST struct etw_tlg_metadata_t { \
                unsigned short etw_size; \
                ETW_TLG_TAG_TYPE((0u ETW_TLG_EACH(ETW_TLG_TAG_OP, __VA_ARGS__))) etw_tag; \
                char etw_name[sizeof(name)]; \
                ETW_TLG_EACH(ETW_TLG_MEMBERS_OP, __VA_ARGS__) \
            } __attribute__((packed)) etw_tlg_metadata = { \
                sizeof(struct etw_tlg_metadata_t), \
                ETW_TLG_TAG_VALUE((0u ETW_TLG_EACH(ETW_TLG_TAG_OP, __VA_ARGS__))), \
                name \
                ETW_TLG_EACH(ETW_TLG_INITS_OP, __VA_ARGS__)}; \
            ETW_TLG_ASSERT(sizeof(struct etw_tlg_metadata_t) <= 0xFFFF, \
                           "the names of an event are too long"); \
            ETW_TLG_ASSERT( \
                2 ETW_TLG_EACH(ETW_TLG_PIECES_OP, __VA_ARGS__) <= MAX_EVENT_DATA_DESCRIPTORS, \
                "an event has at most 128 pieces of data; counted fields take two"); \
            ETW_TLG_SEND(function, call, 2 ETW_TLG_EACH(ETW_TLG_PIECES_OP, __VA_ARGS__), \
                         __VA_ARGS__) \
        } \
    } while (0)

/* ---- fields ----
 * Their last three arguments may be missing: name, description, tag. ETW_TLG_NAMED gives
 * `name, is there a tag, tag`; text is the name when there is none. The description is for readers
 * of the source: it is not in the event. First argument: something that is always there. */
#define ETW_TLG_NAMED(text, ...) \
    ETW_TLG_PASTE(ETW_TLG_NAMED_, ETW_TLG_COUNT(__VA_ARGS__))(text, __VA_ARGS__, 0)
#define ETW_TLG_NAMED_1(text, first, ...) text, 0, 0
#define ETW_TLG_NAMED_2(text, first, name, ...) name, 0, 0
#define ETW_TLG_NAMED_3(text, first, name, description, ...) name, 0, 0
#define ETW_TLG_NAMED_4(text, first, name, description, tag, ...) name, 1, tag
#define ETW_TLG_FIRST(...) ETW_TLG_FIRST_(__VA_ARGS__, 0)
#define ETW_TLG_FIRST_(first, ...) first

/* One value. types, in, out: see ETW_TLG_TYPE_. */
#define ETW_TLG_SCALAR(ctype, types, in, out, text, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, in, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgScalar, (ctype, ETW_TLG_FIRST(__VA_ARGS__)))
#define ETW_TLG_TEXT(ctype, types, in, out, text, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, in, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgText, (ctype, ETW_TLG_FIRST(__VA_ARGS__)))
#define ETW_TLG_AUTO(text, ...) \
    ETW_TLG_FIELD(EtwTlgAuto, (ETW_TLG_FIRST(__VA_ARGS__), ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgAuto, (ETW_TLG_FIRST(__VA_ARGS__)))
/* A pointer and a count; the arguments begin with the count. */
#define ETW_TLG_COUNTED(ctype, in, out, types, text, pointer, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, in, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgCounted, (ctype, pointer, ETW_TLG_FIRST(__VA_ARGS__)))
#define ETW_TLG_BINARY(types, in, out, text, pointer, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, in, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgBinary, (pointer, ETW_TLG_FIRST(__VA_ARGS__)))
#define ETW_TLG_ARRAY(ctype, types, in, out, text, pointer, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, (in) | 0x40, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgArray, (ctype, pointer, ETW_TLG_FIRST(__VA_ARGS__)))
#define ETW_TLG_FIXED(ctype, types, in, out, text, pointer, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, (in) | 0x20, out, 1, ETW_TLG_FIRST(__VA_ARGS__), \
                                ETW_TLG_NAMED(text, __VA_ARGS__)), \
                  EtwTlgFixedArray, (ctype, pointer, ETW_TLG_FIRST(__VA_ARGS__)))
/* Begins with something that is there. */
#define ETW_TLG_PLAIN(types, in, out, text, dk, da, ...) \
    ETW_TLG_FIELD(EtwTlgPlain, (types, in, out, 0, 0, ETW_TLG_NAMED(text, __VA_ARGS__)), dk, da)
#define ETW_TLG_STRUCT(array, ...) \
    ETW_TLG_FIELD(EtwTlgStruct, \
                  (array, ETW_TLG_FIRST(__VA_ARGS__), ETW_TLG_NAMED("", __VA_ARGS__)), \
                  EtwTlgNone, EtwTlgNone)

/* clang-format on */

#endif
