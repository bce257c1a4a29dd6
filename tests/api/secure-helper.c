/* SPDX-License-Identifier: Apache-2.0
 *
 * Run set-user-id by another user: calls the library once. Exit status 0: the call was made; 77:
 * the system did not raise our rights. Which socket was asked, the caller sees.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <evntprov.h>
#include <evntrace.h>

int main(void)
{
    static const GUID id = {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}};
    EVENT_TRACE_PROPERTIES p;
    REGHANDLE h;

    if (!getauxval(AT_SECURE))
        return 77;
    memset(&p, 0, sizeof(p));
    p.Wnode.BufferSize = sizeof(p);
    /* The socket of a real daemon may be there: only ETWD_SOCKET must not count. */
    if (EventRegister(&id, NULL, NULL, &h) != ERROR_SUCCESS || EventUnregister(h) != ERROR_SUCCESS)
        return 2;
    return getenv("ETWD_SOCKET") && QueryTraceA(0, "session", &p) != ERROR_INVALID_PARAMETER ? 0
                                                                                             : 1;
}
