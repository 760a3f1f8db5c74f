// Digests of bytes that come in pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace paceline::models {

class Digest {
public:
  /// sha1: for git's names of files alone.
  enum class Algorithm { sha256, sha1 };
  explicit Digest(Algorithm algorithm = Algorithm::sha256);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::string_view bytes);
  /// Returns the digest of all that was added, in hex; nothing may be added any more.
  std::string hex();
  /// Returns whether a text has the form of a SHA-256 digest.
  static bool is_hex(std::string_view text);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace paceline::models
