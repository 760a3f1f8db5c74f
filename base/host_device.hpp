// Marks small functions that device kernels compile too; a host compiler sees nothing.
#pragma once

#if defined(__CUDACC__)
#define PACELINE_HOST_DEVICE __host__ __device__
#else
#define PACELINE_HOST_DEVICE
#endif
