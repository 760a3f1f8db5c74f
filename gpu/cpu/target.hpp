// Marks functions for processors with more features than the build requires, between
// PACELINE_TARGET_BEGIN and PACELINE_TARGET_END. No header may be included between the two.
#pragma once

#define PACELINE_PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifdef __clang__
#define PACELINE_TARGET_BEGIN(features)                                                            \
  PACELINE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define PACELINE_TARGET_END PACELINE_PRAGMA(clang attribute pop)
#else
#define PACELINE_TARGET_BEGIN(features)                                                            \
  PACELINE_PRAGMA(GCC push_options) PACELINE_PRAGMA(GCC target(features))
#define PACELINE_TARGET_END PACELINE_PRAGMA(GCC pop_options)
#endif
