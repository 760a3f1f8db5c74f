# Writes OUTPUT, a C++ file with the commit of SOURCE: cmake -DSOURCE=... -DOUTPUT=... -P this. A file
# that is right already stays as it is, so that nothing is linked again.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty "--abbrev=12" --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
set(content "// Made by cmake/WriteCommit.cmake.
#include \"apps/commit.hpp\"

namespace paceline::apps {
const char* commit() {
  return \"${commit}\";
}
} // namespace paceline::apps
")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT content STREQUAL before)
  file(WRITE "${OUTPUT}" "${content}")
endif()
