#include "tests/gpu/backends.hpp"

#include "gpu/cpu/kernels.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <set>

namespace paceline::gpu::testing {
namespace {

std::string running;           ///< The test case.
std::set<std::string> skipped; ///< Test cases that had no GPU to run on.

/// Says at the end how many there were.
struct Listener final : doctest::IReporter {
  explicit Listener(const doctest::ContextOptions& options) : out(*options.cout) {}
  void test_run_end(const doctest::TestRunStats&) override {
    if (!skipped.empty())
      out << skipped.size() << " skipped: no CUDA device" << std::endl;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData& test) override { running = test.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
  std::ostream& out;
};
REGISTER_LISTENER("skipped", 1, Listener);

/// A device whose buffers are memory that the host sees, too.
class SharedDevice final : public Device {
public:
  explicit SharedDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  const std::string& name() const override { return device_->name(); }
  const std::string& kernel() const override { return device_->kernel(); }
  DeviceMemory memory() const override { return device_->memory(); }
  bool on_host() const override { return device_->on_host(); }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return device_->allocate_shared(bytes);
  }
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override {
    return device_->pack(parts);
  }
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    return device_->upload(values);
  }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override {
    return device_->open_lane(std::move(role));
  }

private:
  std::shared_ptr<Device> device_;
};

Result<std::shared_ptr<Device>> open_gpu() {
  return open_device("cuda:0", {0, std::make_shared<RealTime>(), nullptr});
}

} // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const cpu::Kernels* kernels : cpu::available_kernels())
    names.push_back(kernels->name());
  return names;
}

std::vector<std::string> backends() {
  static const bool has_gpu = open_gpu().has_value();
  std::vector<std::string> all = kernel_names();
  if (has_gpu)
    all.emplace_back("cuda:0");
  else
    skipped.insert(running);
  return all;
}

bool is_cuda(const std::string& backend) {
  return backend.starts_with("cuda");
}

std::shared_ptr<Device> open_backend(const std::string& backend, int threads) {
  if (is_cuda(backend))
    return std::make_shared<SharedDevice>(open_gpu().value());
  setenv("PACELINE_CPU", backend.c_str(), 1);
  auto device = open_device("cpu", {threads, std::make_shared<RealTime>(), nullptr}).value();
  unsetenv("PACELINE_CPU");
  return device;
}

} // namespace paceline::gpu::testing
