/* SPDX-License-Identifier: Apache-2.0
 *
 * What events.h leaves out: arrays of every type, tags, fields made by hand, traits and as many
 * fields as there may be, all compared byte by byte. Part of events.h.
 */

#define ARRAYS(type, ctype, in, out, ...)                                                          \
    do {                                                                                           \
        static const ctype two[2] = {__VA_ARGS__};                                                 \
        TraceLoggingWrite(prov, "A", TraceLogging##type##Array(two, 2, "v"),                       \
                          TraceLogging##type##FixedArray(two, 2, "f"));                            \
        capture_expect_arrays(__FILE__, __LINE__, in, out, two, sizeof(two));                      \
    } while (0)

static void every_array(void)
{
    ARRAYS(Int8, INT8, 3, 0, -1, 2);
    ARRAYS(UInt8, UINT8, 4, 0, 1, 255);
    ARRAYS(Int16, INT16, 5, 0, -1, 2);
    ARRAYS(UInt16, UINT16, 6, 0, 1, 2);
    ARRAYS(Int32, INT32, 7, 0, -1, 2);
    ARRAYS(UInt32, UINT32, 8, 0, 1, 2);
    ARRAYS(Int64, INT64, 9, 0, -1, 2);
    ARRAYS(UInt64, UINT64, 10, 0, 1, 2);
    ARRAYS(IntPtr, LONG_PTR, 9, 0, -1, 2);
    ARRAYS(UIntPtr, ULONG_PTR, 10, 0, 1, 2);
    ARRAYS(Long, LONG, 7, 0, -1, 2);
    ARRAYS(ULong, ULONG, 8, 0, 1, 2);
    ARRAYS(HexInt8, INT8, 4, 4, -1, 2);
    ARRAYS(HexUInt8, UINT8, 4, 4, 1, 2);
    ARRAYS(HexInt16, INT16, 6, 4, -1, 2);
    ARRAYS(HexUInt16, UINT16, 6, 4, 1, 2);
    ARRAYS(HexInt32, INT32, 20, 0, -1, 2);
    ARRAYS(HexUInt32, UINT32, 20, 0, 1, 2);
    ARRAYS(HexInt64, INT64, 21, 0, -1, 2);
    ARRAYS(HexUInt64, UINT64, 21, 0, 1, 2);
    ARRAYS(HexIntPtr, LONG_PTR, 21, 0, -1, 2);
    ARRAYS(HexUIntPtr, ULONG_PTR, 21, 0, 1, 2);
    ARRAYS(HexLong, LONG, 20, 0, -1, 2);
    ARRAYS(HexULong, ULONG, 20, 0, 1, 2);
    ARRAYS(Float32, float, 11, 0, 1.5f, 2.5f);
    ARRAYS(Float64, double, 12, 0, 1.5, 2.5);
    ARRAYS(Boolean, BOOLEAN, 4, 3, 1, 0);
    ARRAYS(Bool, INT32, 13, 0, 1, 0);
    ARRAYS(Char, char, 4, 2, 'a', 'b');
    ARRAYS(Char16, char16_t, 6, 2, u'a', u'b');
    ARRAYS(WChar, WCHAR, 6, 2, ETW_W('a'), ETW_W('b'));
    ARRAYS(Pointer, LPVOID, 21, 0, NULL, NULL);
    ARRAYS(CodePointer, LPVOID, 21, 37, NULL, NULL);
    ARRAYS(FileTime, FILETIME, 17, 0, {1, 2}, {3, 4});
    ARRAYS(FileTimeUtc, FILETIME, 17, 38, {1, 2}, {3, 4});
    ARRAYS(SystemTime, SYSTEMTIME, 18, 0, {1, 2, 3, 4, 5, 6, 7, 8}, {9, 8, 7, 6, 5, 4, 3, 2});
    ARRAYS(SystemTimeUtc, SYSTEMTIME, 18, 38, {1, 2, 3, 4, 5, 6, 7, 8}, {9, 8, 7, 6, 5, 4, 3, 2});
    ARRAYS(Guid, GUID, 15, 0, {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}},
           {9, 8, 7, {6, 5, 4, 3, 2, 1, 0, 1}});
}

#define BYTES(metadata, data)                                                                      \
    capture_expect_bytes(__FILE__, __LINE__, metadata, sizeof(metadata) - 1, data, sizeof(data) - 1)

/* Seven bits a byte, from the top; low zeros take no room. */
static void tags(void)
{
    static const UINT8 two[2] = {1, 2};
    const int v = 5;

    TraceLoggingWrite(prov, "T", TraceLoggingEventTag(0x0FE00000));
    BYTES("\x05\0\x7FT\0", "");
    TraceLoggingWrite(prov, "T", TraceLoggingEventTag(0x00200000),
                      TraceLoggingEventTag(0x00004000));
    BYTES("\x06\0\x81\x01T\0", "");
    TraceLoggingWrite(prov, "T", TraceLoggingEventTag(0x00000001));
    BYTES("\x08\0\x80\x80\x80\x01T\0", "");
    TraceLoggingWrite(prov, "T", TraceLoggingUInt8(1, "a", "", 0x00200000),
                      TraceLoggingHexUInt8(2, "b", "", 0x00004000),
                      TraceLoggingUInt8FixedArray(two, 2, "c", "", 0x0FFFFFFF),
                      TraceLoggingStruct(1, "d", "", 0x00200000),
                      TraceLoggingValue((char) 'x', "e", "", 0x00200000));
    BYTES("\x24\0\0T\0"
          "a\0\x84\x80\x01"
          "b\0\x84\x84\x80\x01"
          "c\0\xA4\x80\xFF\xFF\xFF\x7F\x02\0"
          "d\0\x98\x81\x01"
          "e\0\x84\x82\x01",
          "\1\2\1\2x");
    TraceLoggingWrite(prov, "T", TraceLoggingInt8(1, "a", "", 0), TraceLoggingValue(v, "b", ""));
    BYTES("\x0D\0\0T\0"
          "a\0\x83\x80\0"
          "b\0\x07",
          "\1\5\0\0\0");
    EXPECT("T" HEAD "a=3/0=1 b=7/0=5 ");
}

struct counted_text {
    USHORT Length, MaximumLength;
    WCHAR *Buffer;
};
struct counted_bytes {
    ULONG Length;
    const UINT8 *Buffer;
};

static void by_hand(void)
{
    WCHAR wide[] = ETW_W("wide");
    const struct counted_text unicode = {4, 10, wide};
    const struct counted_bytes raw = {3, (const UINT8 *) "abc"};
    const struct counted_bytes *p = &raw;

    TraceLoggingWrite(prov, "H", TraceLoggingUnicodeString(&unicode, "a"),
                      TraceLoggingAnsiString(p), TraceLoggingBinaryBuffer(p, struct counted_bytes),
                      TraceLoggingBinaryBufferEx(p, struct counted_bytes, TlgOutIPV4, "d"));
    BYTES("\x12\0\0H\0"
          "a\0\x16"
          "p\0\x17"
          "p\0\x0E"
          "d\0\x8E\x08",
          "\4\0w\0i\0"
          "\3\0abc\3\0abc\3\0abc");
    TraceLoggingWrite(
        prov, "H", TraceLoggingCustom("xyz", 3, 2, (7, 8, 9), 3, "a"),
        TraceLoggingPackedFieldEx("\2\0a\0b", 6, TlgInANSISTRING | TlgInVcount, TlgOutUTF8, "b"),
        TraceLoggingPackedDataEx("c", 1, EVENT_DATA_DESCRIPTOR_TYPE_NONE),
        TraceLoggingPackedStruct(1, "d"), TraceLoggingPackedMetadata(TlgInINT8, "e"),
        TraceLoggingPackedData("\1\0", 2), TraceLoggingStructArray(1, "f"),
        TraceLoggingUInt8(2, "g"));
    BYTES("\x1F\0\0H\0"
          "a\0\x62\3\0\7\x08\x09"
          "b\0\xC2\x23"
          "d\0\x98\1"
          "e\0\x03"
          "f\0\xD8\1"
          "g\0\x04",
          "\3\0xyz\2\0a\0b\0c\1\0\2");
}

#define FIELDS_3 TraceLoggingUInt8(1, "f"), TraceLoggingUInt8(2, "f"), TraceLoggingUInt8(3, "f")
#define FIELDS_9 FIELDS_3, FIELDS_3, FIELDS_3
#define FIELDS_27 FIELDS_9, FIELDS_9, FIELDS_9
#define NO_FIELD

/* Providers in a function, 99 fields beside the options, and arguments that are empty. */
static void many(void)
{
    static const char one_two_three[] = "\1\2\3";
    TRACELOGGING_DEFINE_PROVIDER_STORAGE(inside, "In", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
                                         TraceLoggingOptionTrait(200, UINT16, (0x1234)),
                                         TraceLoggingOptionTrait(201, UINT8, (5)));
    const TraceLoggingHProvider other = &inside;
    char metadata[5 + 99 * 3], data[99];

    memcpy(metadata, "\x2E\1\0M", 5);
    for (int i = 0; i < 99; i++) {
        memcpy(metadata + 5 + i * 3, "f\0\x04", 3);
        data[i] = one_two_three[i % 3];
    }
    TraceLoggingWrite(prov, "M", TraceLoggingLevel(1), TraceLoggingKeyword(1),
                      TraceLoggingOpcode(1), TraceLoggingChannel(11), TraceLoggingEventTag(0),
                      TraceLoggingDescription("of many"), FIELDS_27, FIELDS_27, FIELDS_27, FIELDS_9,
                      FIELDS_9, NO_FIELD);
    capture_expect_bytes(__FILE__, __LINE__, metadata, sizeof(metadata), data, sizeof(data));
    if (TraceLoggingRegister(other) != S_OK)
        capture_expect(__FILE__, __LINE__, "a provider in a function");
    TraceLoggingWrite(other, "E", NO_FIELD);
    capture_expect_traits(__FILE__, __LINE__, "\x0E\0In\0\5\0\xC8\x34\x12\4\0\xC9\5", 14);
    EXPECT("E" HEAD);
    TraceLoggingUnregister(other);
}
