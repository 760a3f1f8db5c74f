// Marks small functions that device kernels compile too; nothing to a host compiler.
#pragma once

#if defined(__CUDACC__)
#define PACELINE_HOST_DEVICE __host__ __device__
#else
#define PACELINE_HOST_DEVICE
#endif
