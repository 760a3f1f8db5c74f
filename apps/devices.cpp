#include "apps/devices.hpp"

#include "apps/output.hpp"
#include "apps/steady_time.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/topology.hpp"
#include "gpu/device.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::apps {
namespace {

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const gpu::cpu::Kernels* kernels : gpu::cpu::available_kernels())
    names.emplace_back(kernels->name());
  return names;
}

} // namespace

Result<int> show_devices(bool json) {
  const auto device = gpu::open_device("cpu", {0, std::make_shared<SteadyTime>(), nullptr});
  if (!device)
    return tl::unexpected(device.error());
  const auto cores = gpu::cpu::usable_cores();
  const auto physical = gpu::cpu::one_per_physical(cores);
  const auto kernels = kernel_names();
  const gpu::DeviceMemory memory = (*device)->memory();
  if (json)
    return print_json({{"name", (*device)->name()},
                       {"kernel", (*device)->kernel()},
                       {"kernels", boost::json::array(kernels.begin(), kernels.end())},
                       {"cores", cores.size()},
                       {"physical_cores", physical.size()},
                       {"memory_bytes", memory.total},
                       {"available_bytes", memory.available}});
  return print_text(fmt::format("{}\n  cores    {} logical, {} physical\n"
                                "  kernel   {} (this machine can run {})\n"
                                "  memory   {}, {} available\n",
                                (*device)->name(), cores.size(), physical.size(),
                                (*device)->kernel(), fmt::join(kernels, ", "),
                                human_bytes(memory.total), human_bytes(memory.available)));
}

} // namespace paceline::apps
