#include "apps/console/devices.hpp"

#include "apps/console/field_names.hpp"
#include "apps/console/output.hpp"
#include "apps/console/steady_time.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/topology.hpp"
#include "gpu/cuda/survey.hpp"
#include "gpu/device.hpp"
#include "gpu/sim/profile.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace paceline::apps {
namespace {

using gpu::cuda::Gpu;
using gpu::cuda::Link;
using gpu::cuda::Survey;
using gpu::cuda::Version;

/// The host as a device.
struct Host {
  std::string name;
  std::string kernel;
  std::vector<std::string> kernels;
  bool faster_in_int8 = false; ///< Same as gpu::Device::faster_in_int8.
  std::size_t cores = 0;
  std::size_t physical_cores = 0;
  gpu::DeviceMemory memory;
};

Result<Host> look_at_host() {
  const auto device = gpu::open_device("cpu", {0, std::make_shared<SteadyTime>(), nullptr});
  if (!device)
    return tl::unexpected(device.error());
  Host host;
  host.name = (*device)->name();
  host.kernel = (*device)->kernel();
  host.faster_in_int8 = (*device)->faster_in_int8();
  for (const gpu::cpu::Kernels* kernels : gpu::cpu::available_kernels())
    host.kernels.emplace_back(kernels->name());
  const auto cores = gpu::cpu::usable_cores();
  host.cores = cores.size();
  host.physical_cores = gpu::cpu::one_per_physical(cores).size();
  host.memory = (*device)->memory();
  return host;
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const gpu::sim::KnownProfile& profile : gpu::sim::known_profiles())
    names.emplace_back(std::string("sim:") + profile.name);
  return names;
}

boost::json::value version_json(const std::optional<Version>& version) {
  return version ? boost::json::value(to_string(*version)) : boost::json::value();
}

boost::json::value reason_json(const std::optional<Error>& error) {
  return error ? boost::json::value(with_options(*error).text()) : boost::json::value();
}

boost::json::object gpu_json(const Gpu& gpu) {
  boost::json::array links;
  for (const Link& link : gpu.links)
    links.push_back({{"to", fmt::format("cuda:{}", link.to)},
                     {"peer", link.peer},
                     {"atomics", link.atomics},
                     {"rank", link.rank}});
  return {{"name", fmt::format("cuda:{}", gpu.index)},
          {"model", gpu.model},
          {"pci", gpu.pci},
          {"compute_capability", to_string(gpu.capability)},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_total},
          {"available_bytes", gpu.memory_free},
          {"links", std::move(links)},
          {"unusable", reason_json(gpu.unusable)}};
}

boost::json::object cuda_json(const Survey& survey) {
  boost::json::array gpus;
  for (const Gpu& gpu : survey.gpus)
    gpus.push_back(gpu_json(gpu));
  return {{"toolkit", version_json(survey.toolkit)},
          {"driver", version_json(survey.driver)},
          {"architectures",
           boost::json::array(survey.architectures.begin(), survey.architectures.end())},
          {"cublas", version_json(survey.cublas)},
          {"nccl", survey.nccl ? boost::json::value(*survey.nccl) : boost::json::value()},
          {"devices", std::move(gpus)},
          {"unusable", reason_json(survey.unusable)}};
}

boost::json::object json_of(const Host& host, const Survey& survey) {
  const auto profiles = profile_names();
  return {{"name", host.name},
          {"kernel", host.kernel},
          {"kernels", boost::json::array(host.kernels.begin(), host.kernels.end())},
          {"drafts_in_int8", host.faster_in_int8},
          {"cores", host.cores},
          {"physical_cores", host.physical_cores},
          {"memory_bytes", host.memory.total},
          {"available_bytes", host.memory.available},
          {"cuda", cuda_json(survey)},
          {"sim", boost::json::array(profiles.begin(), profiles.end())}};
}

std::string text_of(const Link& link) {
  if (!link.peer)
    return fmt::format("cuda:{} through the host", link.to);
  return fmt::format("cuda:{} directly{}", link.to, link.atomics ? ", with atomics" : "");
}

std::string text_of(const Gpu& gpu) {
  std::vector<std::string> links;
  std::transform(gpu.links.begin(), gpu.links.end(), std::back_inserter(links),
                 [](const Link& link) { return text_of(link); });
  std::string text =
      fmt::format("cuda:{}\n  model    {}, at {}\n  compute  capability {}, {} multiprocessors\n"
                  "  memory   {}, {} available\n",
                  gpu.index, gpu.model, gpu.pci, to_string(gpu.capability), gpu.multiprocessors,
                  human_bytes(gpu.memory_total), human_bytes(gpu.memory_free));
  if (!links.empty())
    text += fmt::format("  reaches  {}\n", fmt::join(links, "; "));
  if (gpu.unusable)
    text += fmt::format("  unusable {}\n", with_options(*gpu.unusable).text());
  return text;
}

std::string text_of(const Survey& survey) {
  std::string text = "cuda\n";
  if (survey.toolkit)
    text += fmt::format("  toolkit  {}, kernels for {}\n", to_string(*survey.toolkit),
                        fmt::join(survey.architectures, ", "));
  if (survey.driver)
    text += fmt::format("  driver   for CUDA up to {}\n", to_string(*survey.driver));
  if (survey.unusable)
    text += fmt::format("  unusable {}\n", with_options(*survey.unusable).text());
  if (survey.cublas)
    text += fmt::format("  cuBLASLt {}\n", to_string(*survey.cublas));
  if (survey.no_cublas)
    text += fmt::format("  cuBLASLt {}\n", survey.no_cublas->text());
  if (survey.nccl)
    text += fmt::format("  NCCL     {}\n", *survey.nccl);
  if (survey.no_nccl)
    text += fmt::format("  NCCL     {}\n", survey.no_nccl->text());
  for (const Gpu& gpu : survey.gpus)
    text += text_of(gpu);
  return text;
}

std::string text_of(const Host& host) {
  return fmt::format("{}\n  cores    {} logical, {} physical\n"
                     "  kernel   {} (this machine can run {})\n{}"
                     "  memory   {}, {} available\n",
                     host.name, host.cores, host.physical_cores, host.kernel,
                     fmt::join(host.kernels, ", "),
                     host.faster_in_int8 ? "  drafts   rows, keys and values in 8 bits\n" : "",
                     human_bytes(host.memory.total), human_bytes(host.memory.available));
}

} // namespace

Result<int> show_devices(bool json) {
  const auto host = look_at_host();
  if (!host)
    return tl::unexpected(host.error());
  const Survey survey = gpu::cuda::survey();
  if (json)
    return print_json(json_of(*host, survey));
  return print_text(text_of(*host) + text_of(survey) +
                    fmt::format("sim\n  profiles {}\n", fmt::join(profile_names(), ", ")));
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = profile_names();
  for (const Gpu& gpu : gpu::cuda::survey().gpus)
    names.push_back(fmt::format("cuda:{}", gpu.index));
  names.emplace_back("cpu");
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace paceline::apps
