// The profiler of an emulated machine: it notes what NVTX is told.
#include "tests/gpu/cuda_emulation/cuda_emulation.hpp"

#include <map>
#include <mutex>
#include <nvtx3/nvToolsExt.h>
#include <thread>
#include <utility>

struct nvtxDomainRegistration_st {
  std::string name;
};

namespace cuda_emulation {
namespace {

struct Notes {
  std::mutex mutex;
  std::map<std::thread::id, std::string> names;
  std::vector<std::string> lines;
};
Notes& notes() {
  static Notes notes;
  return notes;
}

thread_local int depth = 0;

void note(const std::string& line) {
  Notes& all = notes();
  const std::lock_guard lock(all.mutex);
  all.lines.push_back(all.names[std::this_thread::get_id()] + ": " + line);
}

} // namespace

std::vector<std::string> take_marks() {
  Notes& all = notes();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.lines, {});
}

} // namespace cuda_emulation

using namespace cuda_emulation;

nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  static nvtxDomainRegistration_st domain; // The tree has one.
  domain.name = name;
  return &domain;
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note(std::string(std::size_t(depth), ' ') + domain->name + " " + attributes->message.ascii + " " +
       std::to_string(attributes->payload.iValue));
  return depth++;
}

int nvtxDomainRangePop(nvtxDomainHandle_t) {
  note(std::string(std::size_t(--depth), ' ') + "end");
  return depth;
}

void nvtxNameOsThreadA(std::uint32_t, const char* name) {
  Notes& all = notes();
  const std::lock_guard lock(all.mutex);
  all.names[std::this_thread::get_id()] = name;
}
