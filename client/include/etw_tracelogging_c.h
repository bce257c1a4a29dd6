/* SPDX-License-Identifier: Apache-2.0
 *
 * Of TraceLoggingProvider.h, not for programs: the part of etw_tracelogging.h for C. Values become
 * local variables, in the order of the arguments; then their descriptors are made.
 * TraceLoggingValue finds its types by _Generic.
 */
#ifndef ETW_TRACELOGGING_C_H
#define ETW_TRACELOGGING_C_H

/* clang-format off */

#define ETW_TLG_TAG_TYPE(tag) \
    __typeof__(__builtin_choose_expr(((tag) & 0x1FFFFFu) == 0, (unsigned char) 0, \
               __builtin_choose_expr(((tag) & 0x3FFFu) == 0, (unsigned short) 0, (unsigned int) 0)))

/* ---- TraceLoggingValue ---- */

/* A value of any type; data: of text, whose end comes with it. */
struct etw_tlg_auto {
    const void *data;
    ULONG size;
    UCHAR value[16];
};

#define ETW_TLG_AUTO_SCALAR(name, ctype) \
    FORCEINLINE struct etw_tlg_auto etw_tlg_auto_##name(ctype value) \
    { \
        struct etw_tlg_auto a; \
        a.data = NULL; \
        a.size = sizeof(value); \
        memcpy(a.value, &value, sizeof(value)); \
        return a; \
    }
#define ETW_TLG_AUTO_TEXT(name, ctype) \
    FORCEINLINE struct etw_tlg_auto etw_tlg_auto_##name(const ctype *text) \
    { \
        struct etw_tlg_bytes b = etw_tlg_text_##ctype(text); \
        struct etw_tlg_auto a; \
        a.data = b.data; \
        a.size = b.size; \
        return a; \
    }

/* row(type, its name here, in-type, out-type) of every type but text and pointers. */
#define ETW_TLG_AUTO_SCALARS(row) \
    row(_Bool, bool, 4, 3) \
    row(char, char, 4, 2) \
    row(signed char, i8, 3, 0) \
    row(unsigned char, u8, 4, 0) \
    row(short, i16, 5, 0) \
    row(unsigned short, u16, 6, 0) \
    row(int, i32, 7, 0) \
    row(unsigned int, u32, 8, 0) \
    row(long, long, (sizeof(long) == 8 ? 9 : 7), 0) \
    row(unsigned long, ulong, (sizeof(long) == 8 ? 10 : 8), 0) \
    row(long long, i64, 9, 0) \
    row(unsigned long long, u64, 10, 0) \
    row(float, f32, 11, 0) \
    row(double, f64, 12, 0) \
    row(GUID, guid, 15, 0) \
    row(FILETIME, filetime, 17, 0) \
    row(SYSTEMTIME, systemtime, 18, 0)
#define ETW_TLG_AUTO_POINTERS(row) \
    row(void *, pointer, ETW_TLG_IN_POINTER, 0) \
    row(const void *, pointer, ETW_TLG_IN_POINTER, 0) \
    row(char *, text, 2, 0) \
    row(const char *, text, 2, 0) \
    row(char16_t *, wide, 1, 0) \
    row(const char16_t *, wide, 1, 0)
#define ETW_TLG_IN_POINTER (sizeof(void *) == 8 ? 21 : 20)

#define ETW_TLG_AUTO_DEFINE(ctype, name, in, out) ETW_TLG_AUTO_SCALAR(name, ctype)
ETW_TLG_AUTO_SCALARS(ETW_TLG_AUTO_DEFINE)
ETW_TLG_AUTO_SCALAR(pointer, const void *)
ETW_TLG_AUTO_TEXT(text, char)
ETW_TLG_AUTO_TEXT(wide, char16_t)

/* The value's type, without evaluating it and without a warning that it is not evaluated. */
#define ETW_TLG_TYPE_OF(value) (*(__typeof__(value) *) 0)
#define ETW_TLG_ROW_TYPE(ctype, name, in, out) , ctype: (__typeof__( \
    __builtin_choose_expr((out) == 0, (unsigned char) 0, (unsigned short) 0))) 0
#define ETW_TLG_ROW_TYPES(ctype, name, in, out) \
    , ctype: ((out) == 0 ? (in) : (0x80 | (in) | (out) << 8))
#define ETW_TLG_ROW_VALUE(ctype, name, in, out) , ctype: etw_tlg_auto_##name

#define ETW_TLG_AUTO_TYPE_0(n, value) \
    __typeof__(_Generic(ETW_TLG_TYPE_OF(value) \
        ETW_TLG_AUTO_SCALARS(ETW_TLG_ROW_TYPE) ETW_TLG_AUTO_POINTERS(ETW_TLG_ROW_TYPE)))
#define ETW_TLG_AUTO_TYPE_1(n, value) unsigned short
#define ETW_TLG_AUTO_TYPES_0(n, value) \
    _Generic(ETW_TLG_TYPE_OF(value) \
        ETW_TLG_AUTO_SCALARS(ETW_TLG_ROW_TYPES) ETW_TLG_AUTO_POINTERS(ETW_TLG_ROW_TYPES))
#define ETW_TLG_AUTO_TYPES_1(n, value) (0x8080 | ETW_TLG_AUTO_TYPES_0(n, value))
#define ETW_TLG_T_AUTO(n, value, name, tf, tag)

/* ---- values ---- */
#define ETW_TLG_V_EtwTlgScalar(n, da) ETW_TLG_WITH(ETW_TLG_V_SCALAR, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_SCALAR(n, ctype, value) const ctype etw_tlg_v##n = (value);
#define ETW_TLG_V_EtwTlgAuto(n, da) ETW_TLG_WITH(ETW_TLG_V_AUTO, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_AUTO(n, value) \
    const struct etw_tlg_auto etw_tlg_v##n = _Generic(ETW_TLG_TYPE_OF(value) \
        ETW_TLG_AUTO_SCALARS(ETW_TLG_ROW_VALUE) ETW_TLG_AUTO_POINTERS(ETW_TLG_ROW_VALUE))(value);
#define ETW_TLG_V_EtwTlgText(n, da) ETW_TLG_WITH(ETW_TLG_V_TEXT, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_TEXT(n, ctype, text) \
    const struct etw_tlg_bytes etw_tlg_v##n = etw_tlg_text_##ctype(text);
#define ETW_TLG_V_EtwTlgSid(n, da) ETW_TLG_WITH(ETW_TLG_V_SID, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_SID(n, sid) const struct etw_tlg_bytes etw_tlg_v##n = etw_tlg_sid(sid);
#define ETW_TLG_V_EtwTlgFixedArray(n, da) ETW_TLG_WITH(ETW_TLG_V_FIXED, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_FIXED(n, ctype, values, count) \
    const ctype *const etw_tlg_p##n = (values); \
    const struct etw_tlg_bytes etw_tlg_v##n = \
        etw_tlg_data(etw_tlg_p##n, (count) * sizeof(ctype), 0);
#define ETW_TLG_V_EtwTlgBytes(n, da) ETW_TLG_WITH(ETW_TLG_V_BYTES, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BYTES(n, data, size, type) \
    const struct etw_tlg_bytes etw_tlg_v##n = etw_tlg_data(data, size, type);
#define ETW_TLG_V_EtwTlgCounted(n, da) ETW_TLG_WITH(ETW_TLG_V_COUNTED, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_COUNTED(n, ctype, text, count) \
    const struct etw_tlg_counted etw_tlg_v##n = etw_tlg_counted_##ctype(text, count);
#define ETW_TLG_V_EtwTlgBinary(n, da) ETW_TLG_WITH(ETW_TLG_V_BINARY, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BINARY(n, data, size) \
    const struct etw_tlg_counted etw_tlg_v##n = etw_tlg_binary(data, size);
#define ETW_TLG_V_EtwTlgBuffer(n, da) ETW_TLG_WITH(ETW_TLG_V_BUFFER, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BUFFER(n, ctype, buffer) \
    const ctype *const etw_tlg_p##n = (buffer); \
    const struct etw_tlg_counted etw_tlg_v##n = \
        etw_tlg_binary(etw_tlg_p##n->Buffer, etw_tlg_p##n->Length);
#define ETW_TLG_V_EtwTlgArray(n, da) ETW_TLG_WITH(ETW_TLG_V_ARRAY, n, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_ARRAY(n, ctype, values, count) \
    const ctype *const etw_tlg_p##n = (values); \
    const struct etw_tlg_counted etw_tlg_v##n = \
        etw_tlg_elements(etw_tlg_p##n, count, sizeof(ctype));
#define ETW_TLG_V_EtwTlgNone(n, da)

/* ---- descriptors ---- */
#define ETW_TLG_P_EtwTlgScalar(n, da) \
    etw_tlg_put(etw_tlg_next++, &etw_tlg_v##n, sizeof(etw_tlg_v##n), 0);
#define ETW_TLG_P_EtwTlgAuto(n, da) \
    etw_tlg_put(etw_tlg_next++, etw_tlg_v##n.data ? etw_tlg_v##n.data : etw_tlg_v##n.value, \
                etw_tlg_v##n.size, 0);
#define ETW_TLG_P_EtwTlgBytes(n, da) \
    etw_tlg_put(etw_tlg_next++, etw_tlg_v##n.data, etw_tlg_v##n.size, etw_tlg_v##n.type);
#define ETW_TLG_P_EtwTlgText(n, da) ETW_TLG_P_EtwTlgBytes(n, da)
#define ETW_TLG_P_EtwTlgSid(n, da) ETW_TLG_P_EtwTlgBytes(n, da)
#define ETW_TLG_P_EtwTlgFixedArray(n, da) ETW_TLG_P_EtwTlgBytes(n, da)
#define ETW_TLG_P_EtwTlgCounted(n, da) \
    etw_tlg_put(etw_tlg_next++, &etw_tlg_v##n.count, sizeof(etw_tlg_v##n.count), 0); \
    etw_tlg_put(etw_tlg_next++, etw_tlg_v##n.data, etw_tlg_v##n.size, 0);
#define ETW_TLG_P_EtwTlgBinary(n, da) ETW_TLG_P_EtwTlgCounted(n, da)
#define ETW_TLG_P_EtwTlgBuffer(n, da) ETW_TLG_P_EtwTlgCounted(n, da)
#define ETW_TLG_P_EtwTlgArray(n, da) ETW_TLG_P_EtwTlgCounted(n, da)
#define ETW_TLG_P_EtwTlgNone(n, da)

#define ETW_TLG_SEND(function, call, pieces, ...) \
    EVENT_DATA_DESCRIPTOR etw_tlg_pieces[pieces], *etw_tlg_next = etw_tlg_pieces + 2; \
    ETW_TLG_EACH(ETW_TLG_VALUES_OP, __VA_ARGS__) \
    ETW_TLG_EACH(ETW_TLG_PUTS_OP, __VA_ARGS__) \
    function(etw_tlg_provider, &etw_tlg_event, &etw_tlg_metadata, \
             (ULONG) (etw_tlg_next - etw_tlg_pieces), etw_tlg_pieces, ETW_TLG_UNWRAP call);

/* clang-format on */

#endif
