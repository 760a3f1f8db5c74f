// API keys: who may ask.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// Keeps digests only, so that a key appears in no log, core file or comparison of lengths.
class Keys {
public:
  /// No keys: everybody may ask.
  Keys() = default;

  /// file: one key a line; empty lines and those that begin with # do not count. Without a file,
  /// the environment's `variable`, which may hold several, separated by commas.
  static Result<Keys> load(const std::string& file, const char* variable = "PACELINE_API_KEY");

  void add(std::string_view key);
  bool required() const { return !digests_.empty(); }
  /// authorization: a request's header field, "Bearer KEY". Takes equally long whatever it holds.
  bool accept(std::string_view authorization) const;
  /// The same of a key alone.
  bool accept_key(std::string_view key) const;
  /// Names whoever sends this, or this key, and tells nothing of it; empty where everybody may ask.
  std::string holder(std::string_view authorization) const;
  std::string holder_of_key(std::string_view key) const;

private:
  std::vector<std::string> digests_; // SHA-256
};

} // namespace paceline::apps::serve
