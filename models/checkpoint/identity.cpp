#include "models/checkpoint/identity.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/synthetic/scripted.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <openssl/evp.h>
#include <string_view>

namespace paceline::models {
namespace {

class Digest {
public:
  Digest() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  /// Its length goes before it, so that no two lists of texts are one.
  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    EVP_DigestUpdate(context_.get(), &size, sizeof size);
    EVP_DigestUpdate(context_.get(), text.data(), text.size());
  }
  std::string hex() {
    std::array<unsigned char, 32> bytes{};
    EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr);
    return fmt::format("{:02x}", fmt::join(bytes, ""));
  }

private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

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
    digest.add(location);
    return digest.hex();
  }
  for (const char* name : {"config.json", "tokenizer.json"}) {
    const auto file = MappedFile::open(location + "/" + name);
    if (!file)
      return tl::unexpected(file.error());
    digest.add(file->text());
  }
  const auto weights = TensorFiles::open(location);
  if (!weights)
    return tl::unexpected(weights.error());
  for (const std::string& path : weights->files()) {
    const auto file = MappedFile::open(path);
    if (!file)
      return tl::unexpected(file.error());
    digest.add(std::filesystem::path(path).filename().string());
    digest.add(std::to_string(file->text().size()));
    digest.add(header_of(file->text()));
  }
  return digest.hex();
}

} // namespace paceline::models
