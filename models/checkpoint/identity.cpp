#include "models/checkpoint/identity.hpp"

#include "models/checkpoint/digest.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/synthetic/scripted.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace paceline::models {
namespace {

constexpr std::array texts{"config.json", "tokenizer.json"};
constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view weights_ending = ".safetensors";
/// Of a sample of a file: pieces at most, bytes of each, and from one to the next at least.
constexpr std::size_t pieces_max = 4096;
constexpr std::size_t piece_bytes = 64;
constexpr std::size_t stride_min = std::size_t(16) << 10;

/// Its length goes before it, so that no two lists of texts are one.
void add_text(Digest& digest, std::string_view text) {
  const std::uint64_t size = text.size();
  digest.add({reinterpret_cast<const char*>(&size), sizeof size});
  digest.add(text);
}

/// What a file of weights says of its tensors; `file` was checked when its folder was opened.
std::string_view header_of(std::string_view file) {
  std::uint64_t size = 0;
  for (std::size_t i = 8; i-- > 0;)
    size = size << 8 | static_cast<unsigned char>(file[i]);
  return file.substr(0, 8 + size);
}

} // namespace

Result<std::string> checkpoint_identity(const std::string& location) {
  Digest digest;
  if (is_scripted(location)) {
    add_text(digest, location);
    return digest.hex();
  }
  for (const char* name : texts) {
    const auto file = MappedFile::open(location + "/" + name);
    if (!file)
      return tl::unexpected(file.error());
    add_text(digest, file->text());
  }
  const auto weights = TensorFiles::open(location);
  if (!weights)
    return tl::unexpected(weights.error());
  for (const std::string& path : weights->files()) {
    const auto file = MappedFile::open(path);
    if (!file)
      return tl::unexpected(file.error());
    add_text(digest, std::filesystem::path(path).filename().string());
    add_text(digest, std::to_string(file->text().size()));
    add_text(digest, header_of(file->text()));
  }
  return digest.hex();
}

Result<std::string> sample_weights(const std::string& location) {
  if (is_scripted(location))
    return std::string();
  const auto weights = TensorFiles::open(location);
  if (!weights)
    return tl::unexpected(weights.error());
  Digest digest;
  for (const std::string& path : weights->files()) {
    const auto file = MappedFile::open(path);
    if (!file)
      return tl::unexpected(file.error());
    const std::string_view text = file->text();
    const std::size_t stride = std::max(stride_min, text.size() / pieces_max);
    for (std::size_t at = 0; at < text.size(); at += stride)
      digest.add(text.substr(at, piece_bytes));
  }
  return digest.hex();
}

Result<std::vector<std::string>> checkpoint_files(const std::string& location) {
  std::vector<std::string> files;
  if (is_scripted(location))
    return files;
  const auto weights = TensorFiles::open(location);
  if (!weights)
    return tl::unexpected(weights.error());
  for (const char* name : texts)
    files.push_back(location + "/" + name);
  const std::string index = location + "/" + std::string(index_name);
  std::error_code ignored;
  if (!std::filesystem::exists(location + "/model.safetensors", ignored) &&
      std::filesystem::exists(index, ignored))
    files.push_back(index);
  const auto all = weights->files();
  files.insert(files.end(), all.begin(), all.end());
  return files;
}

bool is_checkpoint_file(std::string_view name) {
  if (std::ranges::find(texts, name) != texts.end() || name == index_name)
    return true;
  return name.ends_with(weights_ending) && name.size() <= 128 && !name.starts_with('.') &&
         std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '_';
         });
}

} // namespace paceline::models
