#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Lists what the layout test compares.
#
#   layout-list.py list MINGW_INCLUDE WINERROR_DEF      prints the list, as C macros: every structure,
#       member, bit field, constant, name and GUID that the ETW headers of mingw-w64 declare, less what
#       stands below with a reason, and every code of winerror.def.
#   layout-list.py check LIST REFERENCE HEADER...       every structure, member and constant of our
#       own headers is in that list or in the reference; prints TAP.

import re
import sys

HEADERS = ['wmistr.h', 'evntrace.h', 'evntprov.h', 'evntcons.h', 'tdh.h']

# Declared there and not here, or not the same, and why.
WITHOUT = {
    'WMI data blocks, not ETW': [
        'OFFSETINSTANCEDATAANDLENGTH', 'WNODE_ALL_DATA', 'WNODE_SINGLE_INSTANCE',
        'WNODE_SINGLE_ITEM', 'WNODE_METHOD_ITEM', 'WNODE_EVENT_ITEM', 'WNODE_EVENT_REFERENCE',
        'WNODE_TOO_SMALL', 'WMIREGGUIDW', 'WMIREGINFOW', r'WMIREG_FLAG_\w+',
    ],
    'end marks: later headers have more values': [
        'EVENT_HEADER_EXT_TYPE_MAX', 'MaxEventInfo', 'MaxTraceSetInfoClass',
        'EtwQueryProcessHandleInfoMax', 'TDH_CONTEXT_MAXIMUM',
    ],
    'words of the compiler and renamed functions, no values': [
        'WMIAPI', 'EVNTAPI', r'\w+_DEF', 'DEFINED_PEVENT_FILTER_DESC', r'_\w+',
        'PEVENT_TRACE_BUFFER_CALLBACK', 'EVENT_TRACE_LOGFILE', 'PEVENT_TRACE_LOGFILE',
        r'(Register|Unregister)TraceGuids', r'(Start|Control|Stop|Query|Update|Flush|Open)Trace',
        'QueryAllTraces',
    ],
    'of functions that are not here': [
        r'PROVIDER_FIELD_INFO\w*', 'PROVIDER_FILTER_INFO', r'PPROVIDER_F\w+',
    ],
    'another name later: Reserved': ['Padding'],
}

# Structures and constants of other headers that ours need.
BASE = '''
STRUCT(FILETIME) MEMBER(FILETIME, dwLowDateTime) MEMBER(FILETIME, dwHighDateTime)
STRUCT(SYSTEMTIME) MEMBER(SYSTEMTIME, wYear) MEMBER(SYSTEMTIME, wMonth)
MEMBER(SYSTEMTIME, wDayOfWeek) MEMBER(SYSTEMTIME, wDay) MEMBER(SYSTEMTIME, wHour)
MEMBER(SYSTEMTIME, wMinute) MEMBER(SYSTEMTIME, wSecond) MEMBER(SYSTEMTIME, wMilliseconds)
STRUCT(TIME_ZONE_INFORMATION) MEMBER(TIME_ZONE_INFORMATION, Bias)
MEMBER(TIME_ZONE_INFORMATION, StandardName) MEMBER(TIME_ZONE_INFORMATION, StandardDate)
MEMBER(TIME_ZONE_INFORMATION, StandardBias) MEMBER(TIME_ZONE_INFORMATION, DaylightName)
MEMBER(TIME_ZONE_INFORMATION, DaylightDate) MEMBER(TIME_ZONE_INFORMATION, DaylightBias)
STRUCT(LARGE_INTEGER) MEMBER(LARGE_INTEGER, LowPart) MEMBER(LARGE_INTEGER, HighPart)
MEMBER(LARGE_INTEGER, u) MEMBER(LARGE_INTEGER, u.LowPart)
MEMBER(LARGE_INTEGER, u.HighPart)
MEMBER(LARGE_INTEGER, QuadPart)
STRUCT(ULARGE_INTEGER) MEMBER(ULARGE_INTEGER, LowPart) MEMBER(ULARGE_INTEGER, HighPart)
MEMBER(ULARGE_INTEGER, u) MEMBER(ULARGE_INTEGER, u.LowPart) MEMBER(ULARGE_INTEGER, u.HighPart)
MEMBER(ULARGE_INTEGER, QuadPart)
STRUCT(GUID) MEMBER(GUID, Data1) MEMBER(GUID, Data2) MEMBER(GUID, Data3) MEMBER(GUID, Data4)
STRUCT(BYTE) STRUCT(UCHAR) STRUCT(BOOLEAN) STRUCT(CHAR) STRUCT(WCHAR) STRUCT(SHORT) STRUCT(USHORT)
STRUCT(WORD) STRUCT(INT) STRUCT(UINT) STRUCT(LONG) STRUCT(ULONG) STRUCT(DWORD) STRUCT(BOOL)
STRUCT(LONGLONG) STRUCT(ULONGLONG) STRUCT(LONG64) STRUCT(ULONG64) STRUCT(DWORD64) STRUCT(UINT64)
STRUCT(ULONG32) STRUCT(INT8) STRUCT(INT16) STRUCT(INT32) STRUCT(INT64) STRUCT(UINT8)
STRUCT(UINT16) STRUCT(UINT32) STRUCT(LONG_PTR) STRUCT(ULONG_PTR) STRUCT(DWORD_PTR) STRUCT(SIZE_T)
STRUCT(HANDLE) STRUCT(PVOID) STRUCT(LPWSTR) STRUCT(LPSTR) STRUCT(TRACEHANDLE) STRUCT(REGHANDLE)
CONSTANT(MAX_PATH) CONSTANT(INFINITE) CONSTANT(TRUE) CONSTANT(FALSE) CONSTANT(ANYSIZE_ARRAY)
CONSTANT(STANDARD_RIGHTS_READ) CONSTANT(SYNCHRONIZE)
CONSTANT(FORMAT_MESSAGE_ALLOCATE_BUFFER) CONSTANT(FORMAT_MESSAGE_IGNORE_INSERTS)
CONSTANT(FORMAT_MESSAGE_FROM_STRING) CONSTANT(FORMAT_MESSAGE_FROM_HMODULE)
CONSTANT(FORMAT_MESSAGE_FROM_SYSTEM) CONSTANT(FORMAT_MESSAGE_ARGUMENT_ARRAY)
CONSTANT(FORMAT_MESSAGE_MAX_WIDTH_MASK) CONSTANT(NO_ERROR) STRUCT(WMIDPREQUESTCODE)
STRUCT(TRACE_INFO_CLASS)
'''


def without_comments(text):
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    return re.sub(r'//.*', '', text)


def excluded(name):
    return any(re.fullmatch(p, name) for names in WITHOUT.values() for p in names)


def block(text, start):
    """The end of the braces that open before start."""
    depth = 1
    while depth:
        depth += {'{': 1, '}': -1}.get(text[start], 0)
        start += 1
    return start


def structures(text):
    """(name, body) of each structure or union with a name."""
    for m in re.finditer(r'^[ \t]*(?:typedef\s+)?(?:struct|union)\s+(\w+)\s*\{', text, re.M):
        end = block(text, m.end())
        tail = text[end:text.index(';', end)].split(',')[0].strip()
        yield tail or m.group(1).lstrip('_'), text[m.end():end - 1]


def members(body, prefix=''):
    """(path, is a bit field) of each member, those of nested ones included."""
    at = 0
    while True:
        m = re.compile(r'\s*(?:__C89_NAMELESS\s+|__extension__\s+)?(?:struct|union)\s*\{').match(
            body, at)
        if m:
            end = block(body, m.end())
            semicolon = body.index(';', end)
            name = body[end:semicolon].strip()
            inner = body[m.end():end - 1]
            if name and not name.startswith('DUMMY'):
                yield prefix + name, False
                yield from members(inner, prefix + name + '.')
            else:
                yield from members(inner, prefix)
            at = semicolon + 1
            continue
        semicolon = body.find(';', at)
        if semicolon < 0:
            return
        text = re.sub(r'^\s*#.*$', '', body[at:semicolon], flags=re.M).strip()
        at = semicolon + 1
        if text:
            name = re.search(r'(\w+)\s*(?:\[[^]]*\]\s*)*$', text.split(':')[0].strip()).group(1)
            yield prefix + name, ':' in text


def constants(text):
    """(name, value) of each object-like macro that has a value."""
    for m in re.finditer(r'^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S[^\n]*)$', text, re.M):
        yield m.group(1), m.group(2).strip()


def enumerators(text):
    for m in re.finditer(r'typedef\s+enum[^{;]*\{([^}]*)\}', text):
        for e in m.group(1).split(','):
            name = e.split('=')[0].strip()
            if name:
                yield name


def list_mingw(include, winerror):
    seen = set()

    def emit(line, name):
        if line not in seen and not excluded(name):
            seen.add(line)
            print(line)

    print('/* Made by layout-list.py. */')
    for header in HEADERS:
        with open(f'{include}/{header}', encoding='utf-8') as f:
            text = without_comments(f.read())
        # Kernel mode has its own time zone type.
        text = re.sub(r'#if defined \(_WMIKM_\)\n.*?#else\n(.*?)#endif', r'\1', text, flags=re.S)
        for name, body in structures(text):
            emit(f'STRUCT({name})', name)
            for path, bits in members(body):
                if excluded(path):
                    continue
                emit(f'{"BITS" if bits else "MEMBER"}({name}, {path})', name)
        for name, value in constants(text):
            if value.startswith('"'):
                emit(f'TEXT_A({name})', name)
            elif value.startswith('L"'):
                emit(f'TEXT_W({name})', name)
            elif re.fullmatch(r'(KERNEL|GLOBAL|EVENT)_LOGGER_NAME', name):
                emit(f'TEXT_A({name})', name)
            else:
                emit(f'CONSTANT({name})', name)
        for name in enumerators(text):
            emit(f'CONSTANT({name})', name)
        for name in re.findall(r'^DEFINE_GUID\s*\((\w+)', text, re.M):
            emit(f'GUID_VALUE({name})', name)
    print(BASE.strip())
    with open(winerror, encoding='utf-8') as f:
        for name in re.findall(r'^WINERROR\((ERROR_\w+)', f.read(), re.M):
            emit(f'CONSTANT({name})', name)


# Of our headers: helpers, and macros that are no values.
OURS = (r'etw_\w+|ETW_[A-Z]+_H|ETW_API|ETW_BEGIN_DECLS|ETW_END_DECLS|_SYS_GUID_OPERATOR_EQ_|'
        r'ETW_\w+_MEMBERS|WINAPI|NTAPI|CALLBACK|VOID|CONST|EXTERN_C|FORCEINLINE|FAR|'
        r'ALREADY_HAVE_WINDOWS_TYPE|ULONG|WCHAR|LPWSTR|LPCWSTR|TCHAR|LPTSTR|INVALID_HANDLE_VALUE|'
        r'FormatMessage|StartKernelTrace|DIAG_LOGGER_NAME')


def check(listing, reference, headers):
    with open(listing, encoding='utf-8') as f:
        known = f.read()
    with open(reference, encoding='utf-8') as f:
        known += without_comments(f.read())
    names = set(re.findall(r'(?:STRUCT|CONSTANT|TEXT_A|TEXT_W)\((\w+)', known))
    fields = {(a, b) for a, b in re.findall(r'(?:MEMBER|BITS)\((\w+),\s*([\w.]+)', known)}
    missing = []
    for header in headers:
        with open(header, encoding='utf-8') as f:
            text = without_comments(f.read())
        text = text.replace('\\\n', '\n')
        bodies = dict(re.findall(r'#define (ETW_\w+_MEMBERS)\([^)]*\)\s*\n(.*?)\n\n', text, re.S))
        for name, body in bodies.items():
            body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
            text = re.sub(name + r'\([^)]*\)(?=;?\n})', lambda m, b=body: b + ';', text)
        for name, body in structures(text):
            if re.fullmatch(OURS, name):
                continue
            if name not in names:
                missing.append(f'{header}: structure {name}')
            for path, _ in members(body):
                if (name, path) not in fields:
                    missing.append(f'{header}: {name}.{path}')
        for name, _ in constants(text):
            if name not in names and not re.fullmatch(OURS, name) and not excluded(name):
                missing.append(f'{header}: constant {name}')
        for name in enumerators(text):
            if name not in names and not excluded(name):
                missing.append(f'{header}: enumerator {name}')
    print('1..1')
    for m in missing:
        print(f'# not in the layout test: {m}')
    print('not ok 1 - every public structure and constant is in the layout test' if missing else
          'ok 1 - every public structure and constant is in the layout test')
    return 1 if missing else 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == 'list':
        return list_mingw(sys.argv[2], sys.argv[3])
    if len(sys.argv) >= 5 and sys.argv[1] == 'check':
        return check(sys.argv[2], sys.argv[3], sys.argv[4:])
    print('usage: layout-list.py list INCLUDE WINERROR_DEF | check LIST REFERENCE HEADER...',
          file=sys.stderr)
    return 2


sys.exit(main())
