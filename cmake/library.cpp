// libpaceline is made of the layers' archives. What only callers use is named here, so that the
// linker takes it along.
#include "paceline/error.hpp"

namespace paceline {
extern const char* (*const kept_for_callers)(ErrorCode);
const char* (*const kept_for_callers)(ErrorCode) = &to_string;
} // namespace paceline
