/* SPDX-License-Identifier: Apache-2.0
 *
 * Of TraceLoggingProvider.h, not for programs: the part of etw_tracelogging.h for C++. Each value
 * becomes an object, an argument of one constructor that makes the descriptors and writes: so a
 * temporary in a field's expression lives until the event is written. The braces of the call make
 * the values be evaluated in their order. TraceLoggingValue finds its types by overloading.
 */
#ifndef ETW_TRACELOGGING_CXX_H
#define ETW_TRACELOGGING_CXX_H

extern "C++" {
namespace etw_tlg_1
{

template <bool Condition, class Yes, class No>
struct choose {
    typedef Yes type;
};
template <class Yes, class No>
struct choose<false, Yes, No> {
    typedef No type;
};

template <unsigned Tag>
struct tag {
    typedef typename choose<
        (Tag & 0x1FFFFFu) == 0, unsigned char,
        typename choose<(Tag & 0x3FFFu) == 0, unsigned short, unsigned int>::type>::type type;
};

/* In-type and out-type of a TraceLoggingValue, as in the metadata. */
template <unsigned In, unsigned Out>
struct types {
    typedef typename choose<Out == 0, unsigned char, unsigned short>::type code;
    /* Not `value`: what derives from it has one. */
    enum : unsigned { in_out = Out == 0 ? In : (0x80u | In | Out << 8) };
};
typedef types<0, 0> no_types;

template <class T, class Types = no_types>
struct scalar : Types {
    T value;
    explicit scalar(T v) : value(v)
    {
    }
    EVENT_DATA_DESCRIPTOR *put(EVENT_DATA_DESCRIPTOR *d) const
    {
        etw_tlg_put(d, &value, sizeof(T), 0);
        return d + 1;
    }
};

template <class Types = no_types>
struct bytes : Types {
    etw_tlg_bytes value;
    explicit bytes(etw_tlg_bytes v) : value(v)
    {
    }
    EVENT_DATA_DESCRIPTOR *put(EVENT_DATA_DESCRIPTOR *d) const
    {
        etw_tlg_put(d, value.data, value.size, value.type);
        return d + 1;
    }
};

struct counted {
    etw_tlg_counted value;
    explicit counted(etw_tlg_counted v) : value(v)
    {
    }
    EVENT_DATA_DESCRIPTOR *put(EVENT_DATA_DESCRIPTOR *d) const
    {
        etw_tlg_put(d, &value.count, sizeof(value.count), 0);
        etw_tlg_put(d + 1, value.data, value.size, 0);
        return d + 2;
    }
};

template <class T>
inline counted array(const T *values, size_t count)
{
    return counted(etw_tlg_elements(values, count, sizeof(T)));
}
template <class T>
inline bytes<> fixed(const T *values, size_t count)
{
    return bytes<>(etw_tlg_data(values, count * sizeof(T), 0));
}
template <class T>
inline counted buffer(const T *b)
{
    return counted(etw_tlg_binary(b->Buffer, b->Length));
}

/* ---- TraceLoggingValue ---- */
#define ETW_TLG_AUTO_SCALAR(ctype, in, out)                                                        \
    inline scalar<ctype, types<in, out>> of(ctype v)                                               \
    {                                                                                              \
        return scalar<ctype, types<in, out>>(v);                                                   \
    }
ETW_TLG_AUTO_SCALAR(bool, 4, 3)
ETW_TLG_AUTO_SCALAR(char, 4, 2)
ETW_TLG_AUTO_SCALAR(char16_t, 6, 2)
ETW_TLG_AUTO_SCALAR(signed char, 3, 0)
ETW_TLG_AUTO_SCALAR(unsigned char, 4, 0)
ETW_TLG_AUTO_SCALAR(short, 5, 0)
ETW_TLG_AUTO_SCALAR(unsigned short, 6, 0)
ETW_TLG_AUTO_SCALAR(int, 7, 0)
ETW_TLG_AUTO_SCALAR(unsigned int, 8, 0)
ETW_TLG_AUTO_SCALAR(long, sizeof(long) == 8 ? 9 : 7, 0)
ETW_TLG_AUTO_SCALAR(unsigned long, sizeof(long) == 8 ? 10 : 8, 0)
ETW_TLG_AUTO_SCALAR(long long, 9, 0)
ETW_TLG_AUTO_SCALAR(unsigned long long, 10, 0)
ETW_TLG_AUTO_SCALAR(float, 11, 0)
ETW_TLG_AUTO_SCALAR(double, 12, 0)
ETW_TLG_AUTO_SCALAR(GUID, 15, 0)
ETW_TLG_AUTO_SCALAR(FILETIME, 17, 0)
ETW_TLG_AUTO_SCALAR(SYSTEMTIME, 18, 0)
ETW_TLG_AUTO_SCALAR(const void *, sizeof(void *) == 8 ? 21 : 20, 0)

#define ETW_TLG_AUTO_TEXT(ctype, text, in, out)                                                    \
    inline bytes<types<in, out>> of(const ctype *v)                                                \
    {                                                                                              \
        return bytes<types<in, out>>(text);                                                        \
    }
ETW_TLG_AUTO_TEXT(char, etw_tlg_text_char(v), 2, 0)
ETW_TLG_AUTO_TEXT(char16_t, etw_tlg_text_char16_t(v), 1, 0)
#if defined(__SIZEOF_WCHAR_T__) && __SIZEOF_WCHAR_T__ == 2
ETW_TLG_AUTO_SCALAR(wchar_t, 6, 2)
ETW_TLG_AUTO_TEXT(wchar_t, etw_tlg_text_etw_wchar(v), 1, 0)
#else
/* Wide text of traces has 16 bits: write u"text". */
void of(wchar_t v) = delete;
#endif
#ifdef __cpp_char8_t
ETW_TLG_AUTO_SCALAR(char8_t, 4, 35)
ETW_TLG_AUTO_TEXT(char8_t, etw_tlg_text_char(reinterpret_cast<const char *>(v)), 2, 35)
#endif
void of(char32_t v) = delete;
/* Other pointers: TraceLoggingPointer, or one of the arrays. */
template <class T>
void of(const T *v) = delete;
/* An enumeration is written as the type below it. */
template <class T>
struct is_enum {
    enum : bool { value = __is_enum(T) };
};
template <class T, bool IsEnum = is_enum<T>::value>
struct below {
};
template <class T>
struct below<T, true> {
    typedef __underlying_type(T) type;
};
template <class T>
inline auto of(T v) -> decltype(of(typename below<T>::type()))
{
    return of(static_cast<typename below<T>::type>(v));
}

/* ---- writing ---- */

template <ULONG N>
struct pieces {
    EVENT_DATA_DESCRIPTOR all[N];

    static inline void put(EVENT_DATA_DESCRIPTOR *)
    {
    }
    template <class First, class... Rest>
    static inline __attribute__((always_inline)) void put(EVENT_DATA_DESCRIPTOR *next,
                                                          const First &first, const Rest &...rest)
    {
        put(first.put(next), rest...);
    }
};

/* Named as the functions that they call. */
template <ULONG N>
struct etw_tlg_write : pieces<N> {
    template <class... Values>
    inline __attribute__((always_inline))
    etw_tlg_write(const _tlgProvider_t *provider, const EVENT_DESCRIPTOR &descriptor,
                  const void *metadata, LPCGUID activity, LPCGUID related, const Values &...values)
    {
        this->put(this->all + 2, values...);
        ::etw_tlg_write(provider, &descriptor, metadata, N, this->all, activity, related);
    }
};

template <ULONG N>
struct etw_tlg_write_ex : pieces<N> {
    template <class... Values>
    inline __attribute__((always_inline))
    etw_tlg_write_ex(const _tlgProvider_t *provider, const EVENT_DESCRIPTOR &descriptor,
                     const void *metadata, ULONG64 filter, ULONG flags, LPCGUID activity,
                     LPCGUID related, const Values &...values)
    {
        this->put(this->all + 2, values...);
        ::etw_tlg_write_ex(provider, &descriptor, metadata, N, this->all, filter, flags, activity,
                           related);
    }
};

} /* namespace etw_tlg_1 */
} /* extern "C++" */

/* clang-format off */

#define ETW_TLG_TAG_TYPE(value) typename ::etw_tlg_1::tag<value>::type

#define ETW_TLG_AUTO_TYPE_0(n, value) typename etw_tlg_auto##n::code
#define ETW_TLG_AUTO_TYPE_1(n, value) unsigned short
#define ETW_TLG_AUTO_TYPES_0(n, v) (0u | etw_tlg_auto##n::in_out)
#define ETW_TLG_AUTO_TYPES_1(n, v) (0x8080u | etw_tlg_auto##n::in_out)
#define ETW_TLG_T_AUTO(n, value, name, tf, tag) \
    typedef decltype(::etw_tlg_1::of(value)) etw_tlg_auto##n;

#define ETW_TLG_V_EtwTlgScalar(n, da) ETW_TLG_WITH(ETW_TLG_V_SCALAR, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_SCALAR(ctype, value) , ::etw_tlg_1::scalar<ctype>(value)
#define ETW_TLG_V_EtwTlgAuto(n, da) ETW_TLG_WITH(ETW_TLG_V_AUTO, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_AUTO(value) , ::etw_tlg_1::of(value)
#define ETW_TLG_V_EtwTlgText(n, da) ETW_TLG_WITH(ETW_TLG_V_TEXT, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_TEXT(ctype, text) , ::etw_tlg_1::bytes<>(etw_tlg_text_##ctype(text))
#define ETW_TLG_V_EtwTlgSid(n, da) ETW_TLG_WITH(ETW_TLG_V_SID, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_SID(sid) , ::etw_tlg_1::bytes<>(etw_tlg_sid(sid))
#define ETW_TLG_V_EtwTlgFixedArray(n, da) ETW_TLG_WITH(ETW_TLG_V_FIXED, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_FIXED(ctype, values, count) , ::etw_tlg_1::fixed<ctype>(values, count)
#define ETW_TLG_V_EtwTlgBytes(n, da) ETW_TLG_WITH(ETW_TLG_V_BYTES, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BYTES(data, size, type) , ::etw_tlg_1::bytes<>(etw_tlg_data(data, size, type))
#define ETW_TLG_V_EtwTlgCounted(n, da) ETW_TLG_WITH(ETW_TLG_V_COUNTED, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_COUNTED(ctype, text, count) \
    , ::etw_tlg_1::counted(etw_tlg_counted_##ctype(text, count))
#define ETW_TLG_V_EtwTlgBinary(n, da) ETW_TLG_WITH(ETW_TLG_V_BINARY, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BINARY(data, size) , ::etw_tlg_1::counted(etw_tlg_binary(data, size))
#define ETW_TLG_V_EtwTlgBuffer(n, da) ETW_TLG_WITH(ETW_TLG_V_BUFFER, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_BUFFER(ctype, b) , ::etw_tlg_1::buffer<ctype>(b)
#define ETW_TLG_V_EtwTlgArray(n, da) ETW_TLG_WITH(ETW_TLG_V_ARRAY, ETW_TLG_UNWRAP da)
#define ETW_TLG_V_ARRAY(ctype, values, count) , ::etw_tlg_1::array<ctype>(values, count)
#define ETW_TLG_V_EtwTlgNone(n, da)

#define ETW_TLG_SEND(function, call, n, ...) \
    ::etw_tlg_1::function<n>{etw_tlg_provider, etw_tlg_event, &etw_tlg_metadata, \
                             ETW_TLG_UNWRAP call ETW_TLG_EACH(ETW_TLG_VALUES_OP, __VA_ARGS__)};

/* clang-format on */

#endif
