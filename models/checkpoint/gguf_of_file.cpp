#include "models/checkpoint/gguf_of_file.hpp"

#include "models/checkpoint/gguf_files.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::models {
namespace {

/// Returns whether a key says how the file was made, or how it lies on the disk.
bool is_of_file(std::string_view key) {
  constexpr std::string_view beginnings[] = {"split.", "quantize.", "general.alignment"};
  return std::ranges::any_of(beginnings,
                             [&](std::string_view own) { return key.starts_with(own); });
}

GgufContents contents_of(std::shared_ptr<const GgufFiles> files) {
  GgufContents out;
  for (const auto& [key, value] : files->metadata())
    if (!is_of_file(key))
      out.metadata.put(key, value);
  for (const auto& [name, tensor] : files->tensors())
    out.tensors.push_back({name, tensor.stored.shape, tensor.stored.type, {tensor.stored.bytes}});
  out.files.push_back(std::move(files));
  return out;
}

} // namespace

Result<GgufContents> gguf_of_file(const std::string& file) {
  return GgufFiles::open(file).map([](const auto& files) { return contents_of(files); });
}

} // namespace paceline::models
