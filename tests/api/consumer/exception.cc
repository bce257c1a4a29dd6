/* SPDX-License-Identifier: Apache-2.0
 *
 * The C++ half of test-exception: callbacks that throw.
 */
#include <stdexcept>
#include <string>

#include <evntcons.h>
#include <evntrace.h>

#include "exception.h"

namespace
{

struct thrown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* Counts destructors: the callback's own frame must unwind too. */
struct guard {
    unsigned &count;
    explicit guard(unsigned &c) : count(c)
    {
    }
    ~guard()
    {
        count++;
    }
};

unsigned guards;
unsigned events;
unsigned throw_at;
bool in_buffer;

void on_event(PEVENT_RECORD)
{
    guard g(guards);

    events++;
    if (!in_buffer && events == throw_at)
        throw thrown("event " + std::to_string(events));
}

ULONG on_buffer(PEVENT_TRACE_LOGFILEA lf)
{
    if (in_buffer && lf->BuffersRead == throw_at)
        throw thrown("buffer " + std::to_string(lf->BuffersRead));
    return TRUE;
}

} // namespace

int throw_through(const char *path, unsigned at, int buffer, TRACEHANDLE *ret_handle)
{
    EVENT_TRACE_LOGFILEA lf = {};

    guards = events = 0;
    throw_at = at;
    in_buffer = buffer != 0;
    lf.LogFileName = const_cast<char *>(path);
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    lf.BufferCallback = on_buffer;
    lf.EventRecordCallback = on_event;
    *ret_handle = OpenTraceA(&lf);
    try {
        (void) ProcessTrace(ret_handle, 1, nullptr, nullptr);
    } catch (const thrown &e) {
        return guards == events && e.what() == (buffer ? "buffer " : "event ") + std::to_string(at);
    }
    return 0;
}

int catch_inside(const char *path)
{
    EVENT_TRACE_LOGFILEA lf = {};
    TRACEHANDLE h;
    ULONG code;
    static unsigned caught;

    caught = 0;
    lf.LogFileName = const_cast<char *>(path);
    lf.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    lf.EventRecordCallback = [](PEVENT_RECORD) {
        try {
            throw thrown("inside");
        } catch (const thrown &) {
            caught++;
        }
    };
    h = OpenTraceA(&lf);
    code = ProcessTrace(&h, 1, nullptr, nullptr);
    return code == ERROR_SUCCESS && CloseTrace(h) == ERROR_SUCCESS ? static_cast<int>(caught) : -1;
}
