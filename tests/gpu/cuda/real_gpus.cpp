// The back ends of the program `cuda_device`: this machine's GPUs. Tests that need more than there
// are do not run, and the program says at its end how many did not.
#include "gpu/cuda/survey.hpp"
#include "tests/gpu/backends.hpp"
#include "tests/gpu/cuda/gpus.hpp"
#include "tests/gpu/cuda/pinned_new.hpp"

#include <doctest/doctest.h>

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
  void test_run_start() override { pin_new_memory(); }
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

/// GPUs that can be used, from the first on.
int usable_gpus() {
  static const int count = [] {
    int usable = 0;
    for (const cuda::Gpu& gpu : cuda::survey().gpus)
      if (!gpu.unusable && gpu.index == usable)
        ++usable;
    return usable;
  }();
  return count;
}

bool has_gpus(int count) {
  if (usable_gpus() >= count)
    return true;
  skipped.insert(running);
  return false;
}

/// The first two; a test that is about links runs for those that are there.
bool are_linked() {
  return cuda::survey().gpus[0].links[0].peer;
}

} // namespace

std::vector<std::string> backends() {
  if (has_gpus(1))
    return {"cuda:0"};
  return {};
}

Gpus::Gpus(int count, bool linked)
    : there_(has_gpus(count) && (count < 2 || linked == are_linked())) {}
Gpus::~Gpus() = default;

} // namespace paceline::gpu::testing
