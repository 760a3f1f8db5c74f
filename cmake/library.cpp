// libpaceline and libpaceline-client are made of the layers' archives. What only callers use is
// named here, so that the linker takes it along.
#include "paceline/error.hpp"
#include "paceline/event.hpp"

namespace paceline {
extern const char* (*const kept_for_callers)(ErrorCode);
const char* (*const kept_for_callers)(ErrorCode) = &to_string;
extern void (Completion::*const kept_for_callers_too)(const Delta&);
void (Completion::*const kept_for_callers_too)(const Delta&) = &Completion::add;
} // namespace paceline
