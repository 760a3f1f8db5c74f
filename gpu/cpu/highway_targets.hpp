// Names the instruction sets that the portable kernels are compiled for: all of Highway's except
// rare or old ones, whose machines use the next lesser set. Include it before hwy/foreach_target.h.
#pragma once

#define HWY_DISABLED_TARGETS                                                                       \
  (HWY_AVX3_DL | HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
