/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of every kind of field, for C and for C++: each is written and compared with what its own
 * description says of it. Included once by each language's file, which defines RUN, the function's
 * name.
 */
#include "capture.h"

#include <TraceLoggingProvider.h>

#include <netinet/in.h>

TRACELOGGING_DEFINE_PROVIDER(prov, "Etw.Test.Fields",
                             (0x3f2504e0, 0x4f89, 0x11d3, 0x9a, 0x0c, 0x03, 0x05, 0xe8, 0x2c, 0x33,
                              0x01),
                             TraceLoggingOptionGroup(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));

#define EXPECT(want) capture_expect(__FILE__, __LINE__, want)
#define HEAD " l5 k0 o0 c11 t0: "

static int evaluated;
static int count_it(int v)
{
    evaluated++;
    return v;
}

static void scalars(void)
{
    const GUID guid = {
        0x33221100, 0x5544, 0x7766, {0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}};
    const FILETIME ft = {1, 2};
    const SYSTEMTIME st = {2026, 12, 2, 1, 3, 4, 5, 6};
    int plain = 7;

    TraceLoggingWrite(prov, "Ints", TraceLoggingInt8(-1, "a"), TraceLoggingUInt8(2, "b"),
                      TraceLoggingInt16(-3, "c"), TraceLoggingUInt16(4, "d"),
                      TraceLoggingInt32(-5, "e"), TraceLoggingUInt32(6, "f"),
                      TraceLoggingInt64(-7, "g"), TraceLoggingUInt64(8, "h"),
                      TraceLoggingLong(-9, "i"), TraceLoggingULong(10, "j"),
                      TraceLoggingIntPtr(-11, "k"), TraceLoggingUIntPtr(12, "l"));
    EXPECT("Ints" HEAD "a=3/0=-1 b=4/0=2 c=5/0=-3 d=6/0=4 e=7/0=-5 f=8/0=6 g=9/0=-7 h=10/0=8 "
           "i=7/0=-9 j=8/0=10 k=9/0=-11 l=10/0=12 ");
    TraceLoggingWrite(prov, "Hex", TraceLoggingHexInt8(1, "a"), TraceLoggingHexUInt8(2, "b"),
                      TraceLoggingHexInt16(3, "c"), TraceLoggingHexUInt16(4, "d"),
                      TraceLoggingHexInt32(5, "e"), TraceLoggingHexUInt32(6, "f"),
                      TraceLoggingHexInt64(7, "g"), TraceLoggingHexUInt64(8, "h"),
                      TraceLoggingHexLong(9, "i"), TraceLoggingHexULong(10, "j"),
                      TraceLoggingHexIntPtr(11, "k"), TraceLoggingHexUIntPtr(12, "l"));
    EXPECT("Hex" HEAD "a=4/4=1 b=4/4=2 c=6/4=3 d=6/4=4 e=20/0=5 f=20/0=6 g=21/0=7 h=21/0=8 "
           "i=20/0=9 j=20/0=10 k=21/0=11 l=21/0=12 ");
    TraceLoggingWrite(
        prov, "Others", TraceLoggingFloat32(1.5f, "a"), TraceLoggingFloat64(0.25, "b"),
        TraceLoggingBoolean(TRUE, "c"), TraceLoggingBool(1, "d"), TraceLoggingChar('x', "e"),
        TraceLoggingWChar(u'y', "f"), TraceLoggingChar16(u'z', "g"),
        TraceLoggingPointer((void *) 16, "h"), TraceLoggingCodePointer((void *) 17, "i"),
        TraceLoggingPid(18, "j"), TraceLoggingTid(19, "k"), TraceLoggingPort(20, "l"),
        TraceLoggingWinError(5, "m"), TraceLoggingNTStatus(21, "n"), TraceLoggingHResult(22, "o"),
        TraceLoggingIPv4Address(23, "p"));
    EXPECT(
        "Others" HEAD "a=11/0=1.5 b=12/0=0.25 c=4/3=1 d=13/0=1 e=4/2='x' f=6/2='y' g=6/2='z' "
        "h=21/0=16 i=21/37=17 j=8/5=18 k=8/6=19 l=6/7=20 m=8/13=5 n=8/14=21 o=7/15=22 p=8/8=23 ");
    TraceLoggingWrite(prov, "Structures", TraceLoggingGuid(guid, "a"),
                      TraceLoggingFileTime(ft, "b"), TraceLoggingFileTimeUtc(ft, "c"),
                      TraceLoggingSystemTime(st, "d"), TraceLoggingSystemTimeUtc(st, "e"));
    EXPECT("Structures" HEAD "a=15/0=00112233445566778899aabbccddeeff b=17/0=8589934593 "
           "c=17/38=8589934593 d=18/0=ea070c00020001000300040005000600 "
           "e=18/38=ea070c00020001000300040005000600 ");
    /* The text of the value is its name. */
    TraceLoggingWrite(prov, "Names", TraceLoggingInt32(plain), TraceLoggingInt32(plain + 1),
                      TraceLoggingUInt8(1, "tagged", "for readers", 0x10));
    EXPECT("Names" HEAD "plain=7/0=7 plain + 1=7/0=8 tagged=4/0=1 ");
}

static void texts(void)
{
    const char16_t wide[] = u"wide";
    const unsigned char sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    const struct in6_addr v6 = {{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}};

    TraceLoggingWrite(
        prov, "Texts", TraceLoggingString("one", "a"), TraceLoggingUtf8String("two", "b"),
        TraceLoggingWideString(wide, "c"), TraceLoggingString16(wide, "d"),
        TraceLoggingString((const char *) NULL, "e"), TraceLoggingCountedString("three..", 5, "f"),
        TraceLoggingCountedUtf8String("four", 2, "g"), TraceLoggingCountedWideString(wide, 2, "h"),
        TraceLoggingCountedString16(wide, 0, "i"));
    EXPECT("Texts" HEAD "a=2/0='one' b=2/35='two' c=1/0='wide' d=1/0='wide' e=2/0='' "
           "f=23/0='three' g=23/35='fo' h=22/0='wi' i=22/0='' ");
    TraceLoggingWrite(prov, "Bytes", TraceLoggingBinary("\1\2\3", 3, "a"),
                      TraceLoggingBinaryEx("\1\2\3\4", 4, TlgOutIPV4, "b"),
                      TraceLoggingSocketAddress("\2\0\0\x50", 4, "c"),
                      TraceLoggingIPv6Address(&v6, "d"), TraceLoggingSid((const void *) sid, "e"),
                      TraceLoggingBinary((const void *) NULL, 0, "f"));
    EXPECT("Bytes" HEAD "a=14/0=010203 b=14/8=01020304 c=14/10=02000050 "
           "d=14/9=000102030405060708090a0b0c0d0e0f e=19/0=010100000000000512000000 f=14/0= ");
}

static void arrays(void)
{
    const INT32 numbers[] = {1, -2, 3};
    const UINT8 bytes[] = {4, 5};
    const double doubles[] = {0.5, 1.5};
    const GUID guids[] = {{1, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}}};
    const char16_t letters[] = {u'a', u'b'};

    TraceLoggingWrite(
        prov, "Arrays", TraceLoggingInt32FixedArray(numbers, 3, "a"),
        TraceLoggingInt32Array(numbers, 2, "b"), TraceLoggingUInt8Array(bytes, 2, "c"),
        TraceLoggingFloat64FixedArray(doubles, 2, "d"), TraceLoggingGuidArray(guids, 1, "e"),
        TraceLoggingWCharArray(letters, 2, "f"), TraceLoggingHexInt32Array(numbers, 1, "g"),
        TraceLoggingInt32Array(numbers, 0, "h"));
    EXPECT("Arrays" HEAD "a=[ 1 -2 3 ] b=[ 1 -2 ] c=[ 4 5 ] d=[ 0.5 1.5 ] "
           "e=[ 01000000000000000000000000000000 ] f=6/2='ab' g=[ 1 ] h=[ ] ");
}

static void structures(void)
{
    TraceLoggingWrite(prov, "Structs", TraceLoggingInt32(1, "before"),
                      TraceLoggingStruct(3, "outer"), TraceLoggingInt32(2, "a"),
                      TraceLoggingStruct(1, "inner"), TraceLoggingString("x", "b"),
                      TraceLoggingInt8(3, "c"), TraceLoggingInt8(4, "after"));
    EXPECT("Structs" HEAD
           "before=7/0=1 outer={ a=7/0=2 inner={ b=2/0='x' } c=3/0=3 } after=3/0=4 ");
    TraceLoggingWrite(prov, "Packed", TraceLoggingPackedStructArray(2, "list"),
                      TraceLoggingPackedMetadata(TlgInUINT8, "n"),
                      TraceLoggingPackedMetadataEx(TlgInUINT16, TlgOutPORT, "p"),
                      TraceLoggingPackedData("\2\0\1\1\0\2\2\0", 8),
                      TraceLoggingPackedField("\7", 1, TlgInUINT8, "last"));
    EXPECT("Packed" HEAD "list=[ { n=4/0=1 p=6/7=1 } { n=4/0=2 p=6/7=2 } ] last=4/0=7 ");
}

static void automatic(void)
{
    const signed char i8 = -1;
    const unsigned short u16 = 2;
    const long l = -3;
    const unsigned long long u64 = 4;
    const char *text = "five";
    char array[] = "six";
    void *p = (void *) 7;
    const GUID guid = {1, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};

    TraceLoggingWrite(prov, "Values", TraceLoggingValue(i8, "a"), TraceLoggingValue(u16, "b"),
                      TraceLoggingValue(l, "c"), TraceLoggingValue(u64, "d"),
                      TraceLoggingValue(text, "e"), TraceLoggingValue(array, "f"),
                      TraceLoggingValue(p, "g"), TraceLoggingValue(1.5f, "h"),
                      TraceLoggingValue(guid, "i"), TraceLoggingValue(u"nine", "j"),
                      TraceLoggingValue("ten", "k"));
    EXPECT("Values" HEAD "a=3/0=-1 b=6/0=2 c=9/0=-3 d=10/0=4 e=2/0='five' f=2/0='six' g=21/0=7 "
           "h=11/0=1.5 i=15/0=01000000000000000000000000000000 j=1/0='nine' k=2/0='ten' ");
}

static void options(void)
{
    const GUID activity = {0xa, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
    const GUID related = {0xb, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};

    TraceLoggingWrite(prov, "Options", TraceLoggingLevel(2), TraceLoggingKeyword(0x10),
                      TraceLoggingKeyword(0x2), TraceLoggingOpcode(9), TraceLoggingEventTag(0x123),
                      TraceLoggingDescription("for readers"),
                      TraceLoggingCustomAttribute("key", "value"), TraceLoggingChannel(12));
    EXPECT("Options l2 k12 o9 c12 t123: ");
    TraceLoggingWrite(prov, "Bare");
    EXPECT("Bare" HEAD);
    TraceLoggingWriteActivity(prov, "Activity", &activity, &related, TraceLoggingInt8(1, "a"));
    EXPECT("Activity l5 k0 o0 c11 t0 aa rb: a=3/0=1 ");
    TraceLoggingWriteActivity(prov, "NoActivity", NULL, NULL);
    EXPECT("NoActivity" HEAD);
    TraceLoggingWriteEx(prov, "Ex", 6, 1, &activity, NULL, TraceLoggingInt8(1, "a"));
    EXPECT("Ex l5 k0 o0 c11 t0 aa: a=3/0=1 ");
}

/* Fields are evaluated once, in order, when somebody wants the event, and not at all otherwise. */
static void evaluation(void)
{
    evaluated = 0;
    TraceLoggingWrite(prov, "Once", TraceLoggingInt32(count_it(1), "a"),
                      TraceLoggingInt32(count_it(2), "b"));
    EXPECT("Once" HEAD "a=7/0=1 b=7/0=2 ");
    if (evaluated != 2)
        capture_expect(__FILE__, __LINE__, "two evaluations");
    evaluated = 0;
    capture_enable(1, 4, ~0ull);
    TraceLoggingWrite(prov, "Level", TraceLoggingInt32(count_it(1), "a"));
    EXPECT("");
    capture_enable(1, 5, 0x10);
    TraceLoggingWrite(prov, "Keyword", TraceLoggingKeyword(0x20), TraceLoggingInt32(count_it(1)));
    EXPECT("");
    capture_enable(0, 255, ~0ull);
    TraceLoggingWrite(prov, "Off", TraceLoggingLevel(1), TraceLoggingInt32(count_it(1), "a"));
    EXPECT("");
    if (TraceLoggingProviderEnabled(prov, 1, 0))
        capture_expect(__FILE__, __LINE__, "not enabled");
    capture_enable(1, 255, ~0ull);
    if (!TraceLoggingProviderEnabled(prov, 1, 0) || evaluated != 0)
        capture_expect(__FILE__, __LINE__, "enabled, and nothing evaluated");
}

#include "fields.h"

void RUN(void);
void RUN(void)
{
    const char *name = TraceLoggingProviderName(prov);

    capture_enable(1, 255, ~0ull);
    TraceLoggingWrite(prov, "NotRegistered", TraceLoggingInt32(count_it(1), "a"));
    EXPECT("");
    if (evaluated != 0 || TraceLoggingRegister(prov) != S_OK ||
        TraceLoggingRegister(prov) != HRESULT_FROM_WIN32(ERROR_ALREADY_EXISTS))
        capture_expect(__FILE__, __LINE__, "registered once");
    if (strcmp(capture_provider(), name) != 0 || strcmp(name, "Etw.Test.Fields") != 0 ||
        TraceLoggingProviderId(prov).Data1 != 0x3f2504e0)
        capture_expect(__FILE__, __LINE__, "the provider's name and GUID");
    scalars();
    texts();
    arrays();
    structures();
    automatic();
    options();
    evaluation();
    every_array();
    tags();
    by_hand();
    many();
    TraceLoggingUnregister(prov);
    TraceLoggingUnregister(prov);
    TraceLoggingWrite(prov, "Unregistered", TraceLoggingInt32(1, "a"));
    EXPECT("");
}
