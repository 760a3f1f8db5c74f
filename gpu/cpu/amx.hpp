// The kernel family for x86 with AMX tiles (see amx.cpp).
#pragma once

namespace paceline::gpu::cpu {

class Kernels;

/// Returns the family, or null if the processor has no AMX or the system does not grant it. Both
/// are checked once per process.
const Kernels* amx_kernels();

} // namespace paceline::gpu::cpu
