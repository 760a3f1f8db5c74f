#include "models/identity.hpp"

#include "models/checkpoint/digest.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/synthetic/scripted_options.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace paceline::models {
namespace {

constexpr std::array texts{"config.json", "tokenizer.json"};
constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::array<std::string_view, 2> weights_endings{".safetensors", ".gguf"};
/// Bounds of a file's sample: its most pieces, the bytes of each, and the least distance of two.
constexpr std::size_t pieces_max = 4096;
constexpr std::size_t piece_bytes = 64;
constexpr std::size_t stride_min = std::size_t(16) << 10;

/// Adds a text behind its length, so that different lists of texts give different digests.
void add_text(Digest& digest, std::string_view text) {
  const std::uint64_t size = text.size();
  digest.add({reinterpret_cast<const char*>(&size), sizeof size});
  digest.add(text);
}

/// The files of a checkpoint, by kind.
struct CheckpointFiles {
  std::vector<std::string> texts;   ///< Configuration and tokenizer, if they are files.
  std::vector<std::string> weights; ///< Files of weights, in order.
  bool gguf = false;
};

Result<CheckpointFiles> files_at(const std::string& location) {
  const auto gguf = find_gguf(location);
  if (!gguf)
    return tl::unexpected(gguf.error());
  if (*gguf)
    return GgufFiles::open(**gguf).map([](const auto& files) {
      return CheckpointFiles{{}, files->paths(), true};
    });
  return TensorFiles::open(location).map([&](const TensorFiles& files) {
    CheckpointFiles out{{}, files.files()};
    for (const char* name : texts)
      out.texts.push_back(location + "/" + name);
    return out;
  });
}

/// Returns the header of a file of weights, which was checked when its checkpoint was opened.
std::string_view header_of(const MappedFile& file, bool gguf) {
  const std::string_view text = file.text();
  if (gguf)
    return text.substr(0, gguf_header_bytes(file.bytes()));
  std::uint64_t size = 0;
  for (std::size_t i = 8; i-- > 0;)
    size = size << 8 | static_cast<unsigned char>(text[i]);
  return text.substr(0, 8 + size);
}

/// Calls use(file) for each file, up to the first error.
template <class F>
Result<void> for_each_file(const std::vector<std::string>& paths, const F& use) {
  for (const std::string& path : paths) {
    const auto file = MappedFile::open(path);
    if (!file)
      return tl::unexpected(file.error());
    use(*file);
  }
  return {};
}

} // namespace

Result<std::string> checkpoint_identity(const std::string& location) {
  Digest digest;
  if (is_scripted(location)) {
    add_text(digest, location);
    return digest.hex();
  }
  return files_at(location).and_then([&](const CheckpointFiles& files) {
    return for_each_file(files.texts,
                         [&](const MappedFile& file) { add_text(digest, file.text()); })
        .and_then([&] {
          return for_each_file(files.weights, [&](const MappedFile& file) {
            add_text(digest, std::filesystem::path(file.path()).filename().string());
            add_text(digest, std::to_string(file.text().size()));
            add_text(digest, header_of(file, files.gguf));
          });
        })
        .map([&] { return digest.hex(); });
  });
}

Result<std::string> sample_weights(const std::string& location) {
  if (is_scripted(location))
    return std::string();
  Digest digest;
  return files_at(location).and_then([&](const CheckpointFiles& files) {
    return for_each_file(files.weights,
                         [&](const MappedFile& file) {
                           const std::string_view text = file.text();
                           const std::size_t stride =
                               std::max(stride_min, text.size() / pieces_max);
                           for (std::size_t at = 0; at < text.size(); at += stride)
                             digest.add(text.substr(at, piece_bytes));
                         })
        .map([&] { return digest.hex(); });
  });
}

Result<std::vector<std::string>> checkpoint_files(const std::string& location) {
  if (is_scripted(location))
    return std::vector<std::string>();
  return files_at(location).map([&](CheckpointFiles&& files) {
    std::vector<std::string> out = std::move(files.texts);
    const std::string index = location + "/" + std::string(index_name);
    std::error_code ignored;
    if (!files.gguf && !std::filesystem::exists(location + "/model.safetensors", ignored) &&
        std::filesystem::exists(index, ignored))
      out.push_back(index);
    out.insert(out.end(), files.weights.begin(), files.weights.end());
    return out;
  });
}

bool is_checkpoint_file(std::string_view name) {
  if (std::ranges::find(texts, name) != texts.end() || name == index_name)
    return true;
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  return std::ranges::any_of(weights_endings, ends) && name.size() <= 128 &&
         !name.starts_with('.') && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '_';
         });
}

} // namespace paceline::models
