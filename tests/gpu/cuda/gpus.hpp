// The GPUs that tests of the CUDA back end run on: emulated, or the machine's own.
#pragma once

namespace paceline::gpu::testing {

/// While it lives there are GPUs to use, if `there`; else the test is counted as skipped.
class Gpus {
public:
  /// linked: whether they reach each other's memory.
  explicit Gpus(int count, bool linked = true);
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;
  bool there() const { return there_; }

private:
  bool there_ = false;
};

} // namespace paceline::gpu::testing
