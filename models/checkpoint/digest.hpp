// SHA-256 of what comes in pieces.
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
  /// Of all that was added, in hex; nothing may be added any more.
  std::string hex();
  /// Whether a text may be one.
  static bool is_hex(std::string_view text);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace paceline::models
