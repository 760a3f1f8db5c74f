// SHA-256 of bytes that come in pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace paceline::models {

class Digest {
public:
  Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::string_view bytes);
  /// Returns the digest of all that was added, in hex; nothing may be added any more.
  std::string hex();
  /// Returns whether a text has the form of such a digest.
  static bool is_hex(std::string_view text);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace paceline::models
