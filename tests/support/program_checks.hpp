// Checks of doctest's in a program that is no test: what tests share checks by its means.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>

namespace paceline::testing {

/// Ends the program where a check fails, and says which. checks: lives as long as the program.
inline void end_at_failed_checks(doctest::Context& checks) {
  checks.setAsDefaultForAssertsOutOfTestCases();
  checks.setAssertHandler([](const doctest::AssertData& data) {
    if (data.m_failed) {
      std::fprintf(stderr, "%s:%d: not so: %s\n", data.m_file, data.m_line, data.m_expr);
      std::exit(EXIT_FAILURE);
    }
  });
}

} // namespace paceline::testing
