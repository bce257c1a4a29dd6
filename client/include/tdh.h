/* SPDX-License-Identifier: Apache-2.0
 *
 * How an event that a consumer received is to be read: its schema, its values, and text made of
 * them. Windows: tdh.h.
 *
 * Where schemas come from: the kernel's classes (DecodingSourceWbem) are built in;
 * self-describing events (DecodingSourceTlg) bring their own; manifests (DecodingSourceXMLFile) are
 * those that this process loaded, then those in $XDG_DATA_HOME/etwd/manifests (or
 * ~/.local/share/...), /etc/etwd/manifests and /usr/share/etwd/manifests (files NAME.man and
 * NAME.xml), read when the first is needed. Others are ERROR_NOT_FOUND. Texts of WPP messages come
 * from TMF files, through a decoding handle.
 *
 * Functions return a Win32 code and leave it for GetLastError() when it is a failure. All may be
 * called by any thread, also at the same time for the same event. Every buffer is the
 * caller's. Events may be hostile: what their data do not hold is
 * ERROR_EVT_INVALID_EVENT_DATA, never a read outside of them.
 */
#ifndef ETW_TDH_H
#define ETW_TDH_H

#include "evntcons.h"
#include "evntprov.h"

ETW_BEGIN_DECLS

typedef ULONG TDHSTATUS;

typedef enum _EVENT_FIELD_TYPE {
    EventKeywordInformation = 0,
    EventLevelInformation = 1,
    EventChannelInformation = 2,
    EventTaskInformation = 3,
    EventOpcodeInformation = 4,
    EventInformationMax = 5
} EVENT_FIELD_TYPE;

typedef struct _EVENT_MAP_ENTRY {
    ULONG OutputOffset; /* of the text, from the start of EVENT_MAP_INFO */
    __extension__ union {
        ULONG Value;
        ULONG InputOffset;
    };
} EVENT_MAP_ENTRY, *PEVENT_MAP_ENTRY;

typedef enum _MAP_VALUETYPE {
    EVENTMAP_ENTRY_VALUETYPE_ULONG = 0,
    EVENTMAP_ENTRY_VALUETYPE_STRING = 1
} MAP_VALUETYPE;

typedef enum _MAP_FLAGS {
    EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP = 1,
    EVENTMAP_INFO_FLAG_MANIFEST_BITMAP = 2,
    EVENTMAP_INFO_FLAG_MANIFEST_PATTERNMAP = 4,
    EVENTMAP_INFO_FLAG_WBEM_VALUEMAP = 8,
    EVENTMAP_INFO_FLAG_WBEM_BITMAP = 16,
    EVENTMAP_INFO_FLAG_WBEM_FLAG = 32,
    EVENTMAP_INFO_FLAG_WBEM_NO_MAP = 64
} MAP_FLAGS;

/* 24 bytes with one entry. */
typedef struct _EVENT_MAP_INFO {
    ULONG NameOffset;
    MAP_FLAGS Flag;
    ULONG EntryCount;
    __extension__ union {
        MAP_VALUETYPE MapEntryValueType;
        ULONG FormatStringOffset;
    };
    EVENT_MAP_ENTRY MapEntryArray[ANYSIZE_ARRAY];
} EVENT_MAP_INFO, *PEVENT_MAP_INFO;

enum _TDH_IN_TYPE {
    TDH_INTYPE_NULL = 0,
    TDH_INTYPE_UNICODESTRING = 1,
    TDH_INTYPE_ANSISTRING = 2,
    TDH_INTYPE_INT8 = 3,
    TDH_INTYPE_UINT8 = 4,
    TDH_INTYPE_INT16 = 5,
    TDH_INTYPE_UINT16 = 6,
    TDH_INTYPE_INT32 = 7,
    TDH_INTYPE_UINT32 = 8,
    TDH_INTYPE_INT64 = 9,
    TDH_INTYPE_UINT64 = 10,
    TDH_INTYPE_FLOAT = 11,
    TDH_INTYPE_DOUBLE = 12,
    TDH_INTYPE_BOOLEAN = 13, /* 4 bytes */
    TDH_INTYPE_BINARY = 14,
    TDH_INTYPE_GUID = 15,
    TDH_INTYPE_POINTER = 16,
    TDH_INTYPE_FILETIME = 17,
    TDH_INTYPE_SYSTEMTIME = 18,
    TDH_INTYPE_SID = 19,
    TDH_INTYPE_HEXINT32 = 20,
    TDH_INTYPE_HEXINT64 = 21,
    /* USHORT bytes, then so many bytes. */
    TDH_INTYPE_MANIFEST_COUNTEDSTRING = 22,
    TDH_INTYPE_MANIFEST_COUNTEDANSISTRING = 23,
    TDH_INTYPE_RESERVED24 = 24,
    TDH_INTYPE_MANIFEST_COUNTEDBINARY = 25,
    TDH_INTYPE_COUNTEDSTRING = 300,
    TDH_INTYPE_COUNTEDANSISTRING = 301,
    TDH_INTYPE_REVERSEDCOUNTEDSTRING = 302, /* the count is big-endian */
    TDH_INTYPE_REVERSEDCOUNTEDANSISTRING = 303,
    TDH_INTYPE_NONNULLTERMINATEDSTRING = 304, /* to the end of the data */
    TDH_INTYPE_NONNULLTERMINATEDANSISTRING = 305,
    TDH_INTYPE_UNICODECHAR = 306,
    TDH_INTYPE_ANSICHAR = 307,
    TDH_INTYPE_SIZET = 308,   /* as a pointer */
    TDH_INTYPE_HEXDUMP = 309, /* ULONG bytes, then so many bytes */
    TDH_INTYPE_WBEMSID = 310  /* TOKEN_USER, then the SID; or a ULONG 0 alone */
};

enum _TDH_OUT_TYPE {
    TDH_OUTTYPE_NULL = 0,
    TDH_OUTTYPE_STRING = 1,
    TDH_OUTTYPE_DATETIME = 2,
    TDH_OUTTYPE_BYTE = 3,
    TDH_OUTTYPE_UNSIGNEDBYTE = 4,
    TDH_OUTTYPE_SHORT = 5,
    TDH_OUTTYPE_UNSIGNEDSHORT = 6,
    TDH_OUTTYPE_INT = 7,
    TDH_OUTTYPE_UNSIGNEDINT = 8,
    TDH_OUTTYPE_LONG = 9,
    TDH_OUTTYPE_UNSIGNEDLONG = 10,
    TDH_OUTTYPE_FLOAT = 11,
    TDH_OUTTYPE_DOUBLE = 12,
    TDH_OUTTYPE_BOOLEAN = 13,
    TDH_OUTTYPE_GUID = 14,
    TDH_OUTTYPE_HEXBINARY = 15,
    TDH_OUTTYPE_HEXINT8 = 16,
    TDH_OUTTYPE_HEXINT16 = 17,
    TDH_OUTTYPE_HEXINT32 = 18,
    TDH_OUTTYPE_HEXINT64 = 19,
    TDH_OUTTYPE_PID = 20,
    TDH_OUTTYPE_TID = 21,
    TDH_OUTTYPE_PORT = 22,
    TDH_OUTTYPE_IPV4 = 23,
    TDH_OUTTYPE_IPV6 = 24,
    TDH_OUTTYPE_SOCKETADDRESS = 25,
    TDH_OUTTYPE_CIMDATETIME = 26,
    TDH_OUTTYPE_ETWTIME = 27,
    TDH_OUTTYPE_XML = 28,
    TDH_OUTTYPE_ERRORCODE = 29,
    TDH_OUTTYPE_WIN32ERROR = 30,
    TDH_OUTTYPE_NTSTATUS = 31,
    TDH_OUTTYPE_HRESULT = 32,
    TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME = 33,
    TDH_OUTTYPE_JSON = 34,
    TDH_OUTTYPE_UTF8 = 35,
    TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO = 36,
    TDH_OUTTYPE_CODE_POINTER = 37,
    TDH_OUTTYPE_DATETIME_UTC = 38,
    TDH_OUTTYPE_REDUCEDSTRING = 300,
    TDH_OUTTYPE_NOPRINT = 301
};

typedef enum _PROPERTY_FLAGS {
    PropertyStruct = 0x1,
    PropertyParamLength = 0x2, /* lengthPropertyIndex */
    PropertyParamCount = 0x4,  /* countPropertyIndex */
    PropertyWBEMXmlFragment = 0x8,
    PropertyParamFixedLength = 0x10,
    PropertyParamFixedCount = 0x20,
    PropertyHasTags = 0x40,
    PropertyHasCustomSchema = 0x80
} PROPERTY_FLAGS;

/* 24 bytes. Offsets are from the start of TRACE_EVENT_INFO, 0: there is none. */
typedef struct _EVENT_PROPERTY_INFO {
    PROPERTY_FLAGS Flags;
    ULONG NameOffset;
    __extension__ union {
        struct {
            USHORT InType;
            USHORT OutType;
            ULONG MapNameOffset;
        } nonStructType;
        struct {
            USHORT StructStartIndex; /* into EventPropertyInfoArray */
            USHORT NumOfStructMembers;
            ULONG padding;
        } structType;
        struct {
            USHORT InType;
            USHORT OutType;
            ULONG CustomSchemaOffset;
        } customSchemaType;
    };
    __extension__ union {
        USHORT count; /* elements; 1: no array, unless PropertyParamFixedCount */
        USHORT countPropertyIndex;
    };
    __extension__ union {
        USHORT length; /* bytes of one value, characters of a string; 0: the data tell */
        USHORT lengthPropertyIndex;
    };
    __extension__ union {
        ULONG Reserved;
        __extension__ struct {
            ULONG Tags : 28;
        };
    };
} EVENT_PROPERTY_INFO, *PEVENT_PROPERTY_INFO;

typedef enum _DECODING_SOURCE {
    DecodingSourceXMLFile = 0, /* a manifest */
    DecodingSourceWbem = 1,    /* a class */
    DecodingSourceWPP = 2,
    DecodingSourceTlg = 3, /* the event itself */
    DecodingSourceMax = 4
} DECODING_SOURCE;

typedef enum _TDH_CONTEXT_TYPE {
    /* For WPP messages, with a decoding handle: a file, and folders with ';' between them whose
     * files are called GUID.tmf; both UTF-16. Times are in UTC whatever GMT says. */
    TDH_CONTEXT_WPP_TMFFILE = 0,
    TDH_CONTEXT_WPP_TMFSEARCHPATH = 1,
    TDH_CONTEXT_WPP_GMT = 2,
    TDH_CONTEXT_POINTERSIZE = 3, /* 4 or 8; else the event's header tells */
    TDH_CONTEXT_PDB_PATH = 4,
    TDH_CONTEXT_MAXIMUM = 5
} TDH_CONTEXT_TYPE;

typedef enum _TEMPLATE_FLAGS {
    TEMPLATE_EVENT_DATA = 1,
    TEMPLATE_USER_DATA = 2,
    TEMPLATE_CONTROL_GUID = 4
} TEMPLATE_FLAGS;

/* 112 bytes, the properties, the texts (UTF-16, NUL-terminated). Top-level properties come first,
 * then the members of structs, those of one together. */
typedef struct _TRACE_EVENT_INFO {
    GUID ProviderGuid;
    GUID EventGuid; /* of a class event: the class */
    EVENT_DESCRIPTOR EventDescriptor;
    DECODING_SOURCE DecodingSource;
    ULONG ProviderNameOffset;
    ULONG LevelNameOffset;
    ULONG ChannelNameOffset;
    ULONG KeywordsNameOffset; /* texts one after the other, an empty one ends them */
    ULONG TaskNameOffset;     /* of a class event: the class's name */
    ULONG OpcodeNameOffset;
    ULONG EventMessageOffset;
    ULONG ProviderMessageOffset;
    ULONG BinaryXMLOffset;
    ULONG BinaryXMLSize;
    __extension__ union {
        ULONG EventNameOffset;
        ULONG ActivityIDNameOffset;
    };
    __extension__ union {
        ULONG EventAttributesOffset;
        ULONG RelatedActivityIDNameOffset;
    };
    ULONG PropertyCount;
    ULONG TopLevelPropertyCount;
    __extension__ union {
        TEMPLATE_FLAGS Flags;
        __extension__ struct {
            ULONG Reserved : 4;
            ULONG Tags : 28; /* of a self-describing event */
        };
    };
    EVENT_PROPERTY_INFO EventPropertyInfoArray[ANYSIZE_ARRAY];
} TRACE_EVENT_INFO, *PTRACE_EVENT_INFO;

/* 16 bytes: a property, or one element of it. */
typedef struct _PROPERTY_DATA_DESCRIPTOR {
    ULONGLONG PropertyName; /* pointer to its name, UTF-16 */
    ULONG ArrayIndex;       /* 0xFFFFFFFF: the whole property */
    ULONG Reserved;
} PROPERTY_DATA_DESCRIPTOR, *PPROPERTY_DATA_DESCRIPTOR;

/* 24 bytes. */
typedef struct _TRACE_PROVIDER_INFO {
    GUID ProviderGuid;
    ULONG SchemaSource; /* 0: manifest, 1: classes */
    ULONG ProviderNameOffset;
} TRACE_PROVIDER_INFO;

typedef struct _PROVIDER_ENUMERATION_INFO {
    ULONG NumberOfProviders;
    ULONG Reserved;
    TRACE_PROVIDER_INFO TraceProviderInfoArray[ANYSIZE_ARRAY];
} PROVIDER_ENUMERATION_INFO, *PPROVIDER_ENUMERATION_INFO;

/* 16 bytes. */
typedef struct _TDH_CONTEXT {
    ULONGLONG ParameterValue;
    TDH_CONTEXT_TYPE ParameterType;
    ULONG ParameterSize;
} TDH_CONTEXT, *PTDH_CONTEXT;

/* What TdhOpenDecodingHandle gives. */
typedef HANDLE TDH_HANDLE, *PTDH_HANDLE;

/* The schema of an event.
 *
 *   pEvent           as the callback got it
 *   TdhContextCount  elements of pTdhContext, which may be NULL when it is 0
 *   pBuffer          for the answer, aligned to 8; NULL asks for the size (*pBufferSize is 0 then)
 *   pBufferSize      in: bytes of pBuffer; out: bytes of the answer
 *
 * ERROR_SUCCESS
 * ERROR_INSUFFICIENT_BUFFER  *pBufferSize tells how many bytes it takes
 * ERROR_NOT_FOUND            nobody knows the event's schema
 * ERROR_INVALID_PARAMETER    a NULL, or a size without a buffer
 * ERROR_NOT_ENOUGH_MEMORY
 *
 * Source: TdhGetEventInformation in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetEventInformation(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                                            PTDH_CONTEXT pTdhContext, PTRACE_EVENT_INFO pBuffer,
                                            ULONG *pBufferSize);

/* The size in bytes of a property's value as it stands in the event.
 *
 *   PropertyDataCount  1 for a property, 2 for a struct and then its member, one more for each
 *                      struct in a struct
 *   pPropertyData      each with the index of an element; 0xFFFFFFFF in the last: all elements, in
 *                      one before: the first
 *
 * ERROR_SUCCESS; ERROR_NOT_FOUND: no schema, no such property, or no such element;
 * ERROR_EVT_INVALID_EVENT_DATA: the event's data end before; ERROR_INVALID_PARAMETER: a NULL, a
 * count of 0, a member of what is no struct; ERROR_NOT_ENOUGH_MEMORY.
 *
 * Source: TdhGetPropertySize in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetPropertySize(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                                        PTDH_CONTEXT pTdhContext, ULONG PropertyDataCount,
                                        PPROPERTY_DATA_DESCRIPTOR pPropertyData,
                                        ULONG *pPropertySize);

/* The value itself, as it stands in the event: counted values with their count, texts with their
 * NUL where there is one. Parameters and codes as TdhGetPropertySize, and
 * ERROR_INSUFFICIENT_BUFFER: BufferSize (bytes) is less than the value takes.
 *
 * Source: TdhGetProperty in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetProperty(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                                    PTDH_CONTEXT pTdhContext, ULONG PropertyDataCount,
                                    PPROPERTY_DATA_DESCRIPTOR pPropertyData, ULONG BufferSize,
                                    PBYTE pBuffer);

/* Texts for the values of a property that has a MapNameOffset; pMapName is that name. As Windows'
 * compiler of manifests does it, each text ends in a space, which TdhFormatProperty leaves out.
 * Codes as TdhGetEventInformation; ERROR_NOT_FOUND: the event's provider has no such map.
 *
 * Source: TdhGetEventMapInformation in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetEventMapInformation(PEVENT_RECORD pEvent, LPWSTR pMapName,
                                               PEVENT_MAP_INFO pBuffer, ULONG *pBufferSize);

/* Text of one value.
 *
 *   EventInfo         of the event; only for its presence
 *   MapInfo           of the property, or NULL
 *   PointerSize       4 or 8, as the event's header tells
 *   PropertyInType, PropertyOutType   TDH_INTYPE_ and TDH_OUTTYPE_
 *   PropertyLength    bytes of the value (characters of a string); 0: the data tell. 16 for
 *                     TDH_OUTTYPE_IPV6
 *   UserDataLength    bytes at UserData, the rest of the event's data
 *   BufferSize        in: bytes of Buffer; out: bytes of the text, its NUL included
 *   UserDataConsumed  bytes that the value takes
 *
 * Numbers are decimal, or 0x and upper-case digits where the type says hex; GUIDs stand in braces;
 * times are ISO 8601 in UTC with seven digits; booleans are true and false.
 *
 * ERROR_SUCCESS; ERROR_INSUFFICIENT_BUFFER: *BufferSize tells the bytes (Buffer may be NULL then);
 * ERROR_INVALID_PARAMETER: a NULL, a pointer size that is neither, types that do not fit each
 * other; ERROR_EVT_INVALID_EVENT_DATA: the value does not fit in UserDataLength.
 *
 * Source: TdhFormatProperty in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhFormatProperty(PTRACE_EVENT_INFO EventInfo, PEVENT_MAP_INFO MapInfo,
                                       ULONG PointerSize, USHORT PropertyInType,
                                       USHORT PropertyOutType, USHORT PropertyLength,
                                       USHORT UserDataLength, PBYTE UserData, ULONG *BufferSize,
                                       LPWSTR Buffer, USHORT *UserDataConsumed);

/* The providers whose events can be read without help of the event, by name.
 *
 * pBuffer and pBufferSize as TdhGetEventInformation: NULL asks for the size, *pBufferSize must be 0
 * then. ERROR_SUCCESS; ERROR_INSUFFICIENT_BUFFER; ERROR_INVALID_PARAMETER;
 * ERROR_NOT_ENOUGH_MEMORY.
 *
 * Source: TdhEnumerateProviders in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhEnumerateProviders(PPROVIDER_ENUMERATION_INFO pBuffer, ULONG *pBufferSize);

/* Makes this process know a manifest (an XML file, at most 260 characters of path). It comes before
 * installed ones; of the same path the last one counts.
 *
 * ERROR_SUCCESS; ERROR_INVALID_PARAMETER: NULL, or too long; ERROR_FILE_NOT_FOUND;
 * ERROR_XML_PARSE_ERROR: it is no manifest; ERROR_NOT_ENOUGH_MEMORY; others of reading a file.
 *
 * Source: TdhLoadManifest in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhLoadManifest(LPWSTR Manifest);

/* Forgets it. ERROR_FILE_NOT_FOUND: none of this path was loaded. Codes as above.
 *
 * Source: TdhUnloadManifest in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhUnloadManifest(LPWSTR Manifest);

/* The same with the XML itself, cbData bytes, which are not needed afterwards: as self-describing
 * programs put it into their traces (event 0xFFFE). It stays for the life of the process.
 *
 * ERROR_SUCCESS; ERROR_INVALID_PARAMETER: NULL or 0 bytes; ERROR_XML_PARSE_ERROR;
 * ERROR_NOT_ENOUGH_MEMORY.
 *
 * Source: TdhLoadManifestFromMemory in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhLoadManifestFromMemory(LPVOID pData, ULONG cbData);

/* A handle that holds what the texts of WPP messages are made from. It may be used by one thread at
 * a time; TdhCloseDecodingHandle frees it. ERROR_SUCCESS; ERROR_INVALID_PARAMETER: NULL;
 * ERROR_NOT_ENOUGH_MEMORY.
 *
 * Source: TdhOpenDecodingHandle in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhOpenDecodingHandle(PTDH_HANDLE Handle);

/* Sets one parameter; of a type the last one counts, but files of TMFFILE add up.
 *
 *   TdhContext  ParameterType TDH_CONTEXT_WPP_TMFFILE or _TMFSEARCHPATH: ParameterValue points to
 *               UTF-16 with a NUL; _WPP_GMT and _POINTERSIZE (4, 8; 0: the message tells): the
 *               value itself. ParameterSize has no meaning.
 *
 * ERROR_SUCCESS; ERROR_INVALID_PARAMETER: a NULL, another type or value; ERROR_FILE_NOT_FOUND;
 * ERROR_FILE_CORRUPT: it is no TMF file; ERROR_NOT_SUPPORTED: _PDB_PATH; ERROR_NOT_ENOUGH_MEMORY;
 * others of reading a file. Folders are looked at when a message needs them.
 *
 * Source: TdhSetDecodingParameter in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhSetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext);

/* The value of the ParameterType that TdhContext names; texts belong to the handle, up to the next
 * change. ERROR_SUCCESS; ERROR_INVALID_PARAMETER: a NULL or another type; ERROR_NOT_FOUND: it was
 * not set.
 *
 * Source: TdhGetDecodingParameter in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext);

/* One property of a WPP message.
 *
 *   PropertyName  FormattedString, GuidName, GuidTypeName, FunctionName, LevelName, FlagsName,
 *                 ComponentName: UTF-16 with a NUL; TraceGuid: a GUID; ThreadId, ProcessId,
 *                 CpuNumber, Version: ULONG; RawSystemTime: ULONGLONG, the event's time
 *   BufferSize    in: bytes of Buffer; out: bytes of the value
 *   Buffer        NULL asks for the size
 *
 * ERROR_SUCCESS; ERROR_INSUFFICIENT_BUFFER: *BufferSize tells the bytes; ERROR_NOT_FOUND: the event
 * is no WPP message, no file describes it, or no such property; ERROR_EVT_INVALID_EVENT_DATA: its
 * data do not hold what the file says; ERROR_INVALID_PARAMETER: a NULL; ERROR_NOT_ENOUGH_MEMORY.
 *
 * Source: TdhGetWppProperty in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetWppProperty(TDH_HANDLE Handle, PEVENT_RECORD EventRecord,
                                       LPWSTR PropertyName, ULONG *BufferSize, PBYTE Buffer);

/* FormattedString: the text of a WPP message. Codes as TdhGetWppProperty.
 *
 * Source: TdhGetWppMessage in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhGetWppMessage(TDH_HANDLE Handle, PEVENT_RECORD EventRecord,
                                      ULONG *BufferSize, PBYTE Buffer);

/* Frees the handle. ERROR_SUCCESS; ERROR_INVALID_PARAMETER: NULL.
 *
 * Source: TdhCloseDecodingHandle in Windows' tdh.h. */
ETW_API ULONG WINAPI TdhCloseDecodingHandle(TDH_HANDLE Handle);

ETW_END_DECLS

#endif
