/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that manifests use without defining them: types, levels, opcodes, tasks, channels,
 * keywords of the "win:" and "xs:" names. Tables only.
 */
#include "manifest_words.h"

#include <string.h>

#include "base/cleanup.h"

struct word {
    const char *name;
    uint64_t value;
    const char *text;
};

static const struct word in_types[] = {
    {"win:UnicodeString", TDH_INTYPE_UNICODESTRING, NULL},
    {"win:AnsiString", TDH_INTYPE_ANSISTRING, NULL},
    {"win:Int8", TDH_INTYPE_INT8, NULL},
    {"win:UInt8", TDH_INTYPE_UINT8, NULL},
    {"win:Int16", TDH_INTYPE_INT16, NULL},
    {"win:UInt16", TDH_INTYPE_UINT16, NULL},
    {"win:Int32", TDH_INTYPE_INT32, NULL},
    {"win:UInt32", TDH_INTYPE_UINT32, NULL},
    {"win:Int64", TDH_INTYPE_INT64, NULL},
    {"win:UInt64", TDH_INTYPE_UINT64, NULL},
    {"win:Float", TDH_INTYPE_FLOAT, NULL},
    {"win:Double", TDH_INTYPE_DOUBLE, NULL},
    {"win:Boolean", TDH_INTYPE_BOOLEAN, NULL},
    {"win:Binary", TDH_INTYPE_BINARY, NULL},
    {"win:GUID", TDH_INTYPE_GUID, NULL},
    {"win:Pointer", TDH_INTYPE_POINTER, NULL},
    {"win:FILETIME", TDH_INTYPE_FILETIME, NULL},
    {"win:SYSTEMTIME", TDH_INTYPE_SYSTEMTIME, NULL},
    {"win:SID", TDH_INTYPE_SID, NULL},
    {"win:HexInt32", TDH_INTYPE_HEXINT32, NULL},
    {"win:HexInt64", TDH_INTYPE_HEXINT64, NULL},
    {"win:CountedUnicodeString", TDH_INTYPE_MANIFEST_COUNTEDSTRING, NULL},
    {"win:CountedAnsiString", TDH_INTYPE_MANIFEST_COUNTEDANSISTRING, NULL},
    {"win:CountedBinary", TDH_INTYPE_MANIFEST_COUNTEDBINARY, NULL},
};

static const struct word out_types[] = {
    {"xs:string", TDH_OUTTYPE_STRING, NULL},
    {"xs:dateTime", TDH_OUTTYPE_DATETIME, NULL},
    {"xs:byte", TDH_OUTTYPE_BYTE, NULL},
    {"xs:unsignedByte", TDH_OUTTYPE_UNSIGNEDBYTE, NULL},
    {"xs:short", TDH_OUTTYPE_SHORT, NULL},
    {"xs:unsignedShort", TDH_OUTTYPE_UNSIGNEDSHORT, NULL},
    {"xs:int", TDH_OUTTYPE_INT, NULL},
    {"xs:unsignedInt", TDH_OUTTYPE_UNSIGNEDINT, NULL},
    {"xs:long", TDH_OUTTYPE_LONG, NULL},
    {"xs:unsignedLong", TDH_OUTTYPE_UNSIGNEDLONG, NULL},
    {"xs:float", TDH_OUTTYPE_FLOAT, NULL},
    {"xs:double", TDH_OUTTYPE_DOUBLE, NULL},
    {"xs:boolean", TDH_OUTTYPE_BOOLEAN, NULL},
    {"xs:GUID", TDH_OUTTYPE_GUID, NULL},
    {"xs:hexBinary", TDH_OUTTYPE_HEXBINARY, NULL},
    {"win:HexInt8", TDH_OUTTYPE_HEXINT8, NULL},
    {"win:HexInt16", TDH_OUTTYPE_HEXINT16, NULL},
    {"win:HexInt32", TDH_OUTTYPE_HEXINT32, NULL},
    {"win:HexInt64", TDH_OUTTYPE_HEXINT64, NULL},
    {"win:PID", TDH_OUTTYPE_PID, NULL},
    {"win:TID", TDH_OUTTYPE_TID, NULL},
    {"win:Port", TDH_OUTTYPE_PORT, NULL},
    {"win:IPv4", TDH_OUTTYPE_IPV4, NULL},
    {"win:IPv6", TDH_OUTTYPE_IPV6, NULL},
    {"win:SocketAddress", TDH_OUTTYPE_SOCKETADDRESS, NULL},
    {"win:CIMDateTime", TDH_OUTTYPE_CIMDATETIME, NULL},
    {"win:ETWTIME", TDH_OUTTYPE_ETWTIME, NULL},
    {"win:Xml", TDH_OUTTYPE_XML, NULL},
    {"win:ErrorCode", TDH_OUTTYPE_ERRORCODE, NULL},
    {"win:Win32Error", TDH_OUTTYPE_WIN32ERROR, NULL},
    {"win:NTSTATUS", TDH_OUTTYPE_NTSTATUS, NULL},
    {"win:HResult", TDH_OUTTYPE_HRESULT, NULL},
    {"win:DateTimeCultureInsensitive", TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME, NULL},
    {"win:Json", TDH_OUTTYPE_JSON, NULL},
    {"win:Utf8", TDH_OUTTYPE_UTF8, NULL},
    {"win:Pkcs7WithTypeInfo", TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO, NULL},
    {"win:CodePointer", TDH_OUTTYPE_CODE_POINTER, NULL},
    {"win:DateTimeUtc", TDH_OUTTYPE_DATETIME_UTC, NULL},
};

static const struct word levels[] = {
    {"win:LogAlways", 0, "Log Always"},
    {"win:Critical", 1, "Critical"},
    {"win:Error", 2, "Error"},
    {"win:Warning", 3, "Warning"},
    {"win:Informational", 4, "Information"},
    {"win:Verbose", 5, "Verbose"},
};

static const struct word opcodes[] = {
    {"win:Info", 0, "Info"},         {"win:Start", 1, "Start"},
    {"win:Stop", 2, "Stop"},         {"win:DC_Start", 3, "DCStart"},
    {"win:DC_Stop", 4, "DCStop"},    {"win:Extension", 5, "Extension"},
    {"win:Reply", 6, "Reply"},       {"win:Resume", 7, "Resume"},
    {"win:Suspend", 8, "Suspend"},   {"win:Send", 9, "Send"},
    {"win:Receive", 240, "Receive"},
};

static const struct word tasks[] = {{"win:None", 0, NULL}};

static const struct word channels[] = {
    {"TraceClassic", 0, NULL}, {"System", 8, NULL},        {"Application", 9, NULL},
    {"Security", 10, NULL},    {"TraceLogging", 11, NULL}, {"ProviderMetadata", 12, NULL},
};

static const struct word keywords[] = {
    {"win:AnyKeyword", 0, NULL},
    {"win:ResponseTime", 0x1000000000000, "Response Time"},
    {"win:WDIContext", 0x2000000000000, "WDI Context"},
    {"win:WDIDiag", 0x4000000000000, "WDI Diag"},
    {"win:SQM", 0x8000000000000, "SQM"},
    {"win:AuditFailure", 0x10000000000000, "Audit Failure"},
    {"win:AuditSuccess", 0x20000000000000, "Audit Success"},
    {"win:CorrelationHint", 0x40000000000000, "Correlation Hint"},
    {"win:EventlogClassic", 0x80000000000000, "Classic"},
};

static const struct {
    const struct word *words;
    size_t n;
} kinds[] = {
    [WORD_IN] = {in_types, ARRAY_SIZE(in_types)},
    [WORD_OUT] = {out_types, ARRAY_SIZE(out_types)},
    [WORD_LEVEL] = {levels, ARRAY_SIZE(levels)},
    [WORD_OPCODE] = {opcodes, ARRAY_SIZE(opcodes)},
    [WORD_TASK] = {tasks, ARRAY_SIZE(tasks)},
    [WORD_CHANNEL] = {channels, ARRAY_SIZE(channels)},
    [WORD_KEYWORD] = {keywords, ARRAY_SIZE(keywords)},
};

bool manifest_word(enum word_kind kind, const char *name, uint64_t *ret)
{
    for (size_t i = 0; i < kinds[kind].n; i++)
        if (strcmp(kinds[kind].words[i].name, name) == 0) {
            *ret = kinds[kind].words[i].value;
            return true;
        }
    return false;
}

const char *manifest_word_text(enum word_kind kind, uint64_t value)
{
    for (size_t i = 0; i < kinds[kind].n; i++)
        if (kinds[kind].words[i].value == value)
            return kinds[kind].words[i].text;
    return NULL;
}

uint16_t manifest_default_out(uint16_t in)
{
    static const uint8_t outs[] = {
        [TDH_INTYPE_UNICODESTRING] = TDH_OUTTYPE_STRING,
        [TDH_INTYPE_ANSISTRING] = TDH_OUTTYPE_STRING,
        [TDH_INTYPE_INT8] = TDH_OUTTYPE_BYTE,
        [TDH_INTYPE_UINT8] = TDH_OUTTYPE_UNSIGNEDBYTE,
        [TDH_INTYPE_INT16] = TDH_OUTTYPE_SHORT,
        [TDH_INTYPE_UINT16] = TDH_OUTTYPE_UNSIGNEDSHORT,
        [TDH_INTYPE_INT32] = TDH_OUTTYPE_INT,
        [TDH_INTYPE_UINT32] = TDH_OUTTYPE_UNSIGNEDINT,
        [TDH_INTYPE_INT64] = TDH_OUTTYPE_LONG,
        [TDH_INTYPE_UINT64] = TDH_OUTTYPE_UNSIGNEDLONG,
        [TDH_INTYPE_FLOAT] = TDH_OUTTYPE_FLOAT,
        [TDH_INTYPE_DOUBLE] = TDH_OUTTYPE_DOUBLE,
        [TDH_INTYPE_BOOLEAN] = TDH_OUTTYPE_BOOLEAN,
        [TDH_INTYPE_BINARY] = TDH_OUTTYPE_HEXBINARY,
        [TDH_INTYPE_GUID] = TDH_OUTTYPE_GUID,
        [TDH_INTYPE_POINTER] = TDH_OUTTYPE_HEXINT64,
        [TDH_INTYPE_FILETIME] = TDH_OUTTYPE_DATETIME,
        [TDH_INTYPE_SYSTEMTIME] = TDH_OUTTYPE_DATETIME,
        [TDH_INTYPE_SID] = TDH_OUTTYPE_STRING,
        [TDH_INTYPE_HEXINT32] = TDH_OUTTYPE_HEXINT32,
        [TDH_INTYPE_HEXINT64] = TDH_OUTTYPE_HEXINT64,
        [TDH_INTYPE_MANIFEST_COUNTEDSTRING] = TDH_OUTTYPE_STRING,
        [TDH_INTYPE_MANIFEST_COUNTEDANSISTRING] = TDH_OUTTYPE_STRING,
        [TDH_INTYPE_MANIFEST_COUNTEDBINARY] = TDH_OUTTYPE_HEXBINARY,
    };
    return in < ARRAY_SIZE(outs) ? outs[in] : TDH_OUTTYPE_NULL;
}
