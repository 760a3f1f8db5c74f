// Boost.JSON, compiled once and position-independent: Debian's static library is not, and the
// shared one would be needed at run time wherever Boost was unpacked.
#include <boost/json/src.hpp>
