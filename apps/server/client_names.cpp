#include "apps/server/client_names.hpp"

#include "apps/console/field_names.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace paceline::apps::serve {
namespace {

constexpr std::string_view node = "node://";

/// Returns the index one past the address that begins at `begin`, such as [::1]:7000/cpu:1.
std::size_t end_of_address(std::string_view text, std::size_t begin) {
  constexpr std::string_view after = " \t\n,;+|\"'()";
  std::size_t end = std::min(text.find_first_of(after, begin), text.size());
  while (end > begin && (text[end - 1] == ':' || text[end - 1] == '.')) // It ends the sentence.
    --end;
  return end;
}

/// Returns "cpu" for "cpu:0-3", and for a node's device the type that its address names.
std::string_view type_of(std::string_view device) {
  if (device.starts_with(node)) {
    const std::size_t slash = device.find('/', node.size());
    device = slash == std::string_view::npos ? "" : device.substr(slash + 1);
  }
  return device.substr(0, device.find(':'));
}

/// Returns the types of all stages, each once. If the address of a node names no device, its first
/// one is meant, and only the kernel tells its type.
std::string device_types(std::string_view devices) {
  std::set<std::string_view> types;
  for (std::size_t begin = 0; begin <= devices.size();) {
    const std::size_t end = std::min(devices.find_first_of("+|", begin), devices.size());
    if (const auto type = type_of(devices.substr(begin, end - begin)); !type.empty())
      types.insert(type);
    begin = end + 1;
  }
  return fmt::format("{}", fmt::join(types, "+"));
}

/// Returns where rows are rounded on their way between machines, as the numbers of layers before
/// those places.
std::string rounded_rows(const ModelInfo& target) {
  std::set<int> places;
  int layers = 0;
  for (const StageInfo& stage : target.stages) {
    if (stage.crossing_rows == "bf16")
      places.insert({layers, layers + stage.layers});
    layers += stage.layers;
  }
  return places.empty() ? "" : fmt::format("-bf16-rows-at-{}", fmt::join(places, "+"));
}

} // namespace

std::string without_addresses(const std::string& text) {
  std::string told;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(node, from)) != std::string::npos;) {
    told += text.substr(from, at - from) + "a node";
    from = end_of_address(text, at + node.size());
  }
  return told + text.substr(from);
}

Error for_clients(const Error& error) {
  Error told = with_request_fields(error);
  told.message = without_addresses(told.message);
  told.hint = without_addresses(told.hint);
  return told;
}

std::string fingerprint_of(const ModelInfo& target) {
  return fmt::format("paceline-{}-{}-{}-{}{}{}{}{}{}{}{}", PACELINE_VERSION,
                     device_types(target.device), target.kernel, target.dtype,
                     target.weights != target.dtype ? "-" + target.weights : "",
                     target.head_weights != target.dtype ? "-head-" + target.head_weights : "",
                     target.activations.empty() ? "" : "-" + target.activations + "-activations",
                     target.kv_cache_dtype.empty() ? "" : "-" + target.kv_cache_dtype + "-cache",
                     target.shards > 1 ? fmt::format("-{}-shards", target.shards) : "",
                     target.prefill == Prefill::fast ? "-fast-prefill" : "", rounded_rows(target));
}

} // namespace paceline::apps::serve
