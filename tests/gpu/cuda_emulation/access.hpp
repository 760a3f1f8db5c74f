// What a fiber does with memory.
#pragma once

namespace cuda_emulation {

enum class Access {
  read,
  write,
  atomic,       ///< Reads and writes; atomics among each other need no order.
  copy_begins,  ///< An asynchronous copy's target may change from now on,
  copy_arrives, ///< and is written: its thread has waited for it.
};

} // namespace cuda_emulation
