/* SPDX-License-Identifier: Apache-2.0
 *
 * The events in C++, and what only C++ has: temporaries, overloads, enumerations.
 */
#define RUN events_cxx_common
#include "events.h"

#include <string>

enum small : unsigned char { SMALL = 3 };

static std::string temporary(void)
{
    return "a text that is too long to lie inside of the object itself";
}

extern "C" void events_cxx(void);
extern "C" void events_cxx(void)
{
    events_cxx_common();
    (void) TraceLoggingRegister(prov);
    TraceLoggingWrite(prov, "Temporary", TraceLoggingString(temporary().c_str(), "a"),
                      TraceLoggingValue(temporary().c_str(), "b"), TraceLoggingValue(true, "c"),
                      TraceLoggingValue(u'x', "d"), TraceLoggingValue(SMALL, "e"));
    EXPECT("Temporary" HEAD "a=2/0='a text that is too long to lie inside of the object itself' "
           "b=2/0='a text that is too long to lie inside of the object itself' c=4/3=1 d=6/2='x' "
           "e=4/0=3 ");
    TraceLoggingUnregister(prov);
}
