/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the library's functions under the macros of TraceLoggingProvider.h: what is
 * written becomes a text, made from the event's own description. For C and C++. One thread.
 */
#pragma once

#include <evntprov.h>

#ifdef __cplusplus
extern "C" {
#endif

ULONG capture_register(LPCGUID id, PENABLECALLBACK callback, PVOID context, PREGHANDLE handle);
ULONG capture_unregister(REGHANDLE handle);
ULONG capture_set_information(REGHANDLE handle, EVENT_INFO_CLASS what, PVOID data, ULONG size);
ULONG capture_write(REGHANDLE handle, PCEVENT_DESCRIPTOR event, LPCGUID activity, LPCGUID related,
                    ULONG n, PEVENT_DATA_DESCRIPTOR data);
ULONG capture_write_ex(REGHANDLE handle, PCEVENT_DESCRIPTOR event, ULONG64 filter, ULONG flags,
                       LPCGUID activity, LPCGUID related, ULONG n, PEVENT_DATA_DESCRIPTOR data);

/* Fails the running test unless the last event is this text: "Name l5 k0 o0 c11 t0: " and then
 * "field=in/out=value " each; "" when nothing was written. Takes it away. */
void capture_expect(const char *file, int line, const char *want);
/* The same for an event "A" of two fields of two elements each, "v" and "f": the two of this type
 * in an array of variable and one of fixed length. Every byte is compared. */
void capture_expect_arrays(const char *file, int line, unsigned in, unsigned out, const void *two,
                           size_t size);
/* The last event's description and its data; it stays. */
void capture_expect_bytes(const char *file, int line, const void *metadata, size_t metadata_size,
                          const void *data, size_t size);
/* The provider's traits, as each event carries them. */
void capture_expect_traits(const char *file, int line, const void *traits, size_t size);
/* The provider's name and what it told by EventSetInformation agree. */
const char *capture_provider(void);
/* Nobody wants events, or somebody wants those up to level with keywords. */
void capture_enable(int on, unsigned char level, unsigned long long any);

#ifdef __cplusplus
}
#endif

#define TLG_EVENT_REGISTER capture_register
#define TLG_EVENT_UNREGISTER capture_unregister
#define TLG_EVENT_SET_INFORMATION capture_set_information
#define TLG_EVENT_WRITE_TRANSFER capture_write
#define TLG_EVENT_WRITE_EX capture_write_ex
