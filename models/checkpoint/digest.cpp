#include "models/checkpoint/digest.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

namespace paceline::models {

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Digest::Digest(Algorithm algorithm) : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context.get(), algorithm == Algorithm::sha1 ? EVP_sha1() : EVP_sha256(),
                    nullptr);
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context.get(), bytes.data(), &size);
  return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + size, ""));
}

bool Digest::is_hex(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

} // namespace paceline::models
