// API keys: who may ask.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// Whose a request is.
struct Holder {
  std::string name; ///< Tells nothing of the key; empty where everybody may ask.
  int weight = 1;   ///< Of its share of the engine (Request::client_weight).
};

/// Keeps digests only, so that a key appears in no log, core file or comparison of lengths.
class Keys {
public:
  /// No keys: everybody may ask.
  Keys() = default;

  /// file: one key a line, and behind it, if its share of the engine is another than others',
  /// weight=N; empty lines and those that begin with # do not count. Without a file,
  /// the environment's `variable`, which may hold several, separated by commas.
  static Result<Keys> load(const std::string& file, const char* variable = "PACELINE_API_KEY");

  void add(std::string_view key, int weight = 1);
  bool required() const { return !keys_.empty(); }
  /// authorization: a request's header field, "Bearer KEY". Takes equally long whatever it holds.
  bool accept(std::string_view authorization) const;
  /// The same of a key alone.
  bool accept_key(std::string_view key) const;
  /// Of whoever sends this, or this key.
  Holder holder(std::string_view authorization) const;
  Holder holder_of_key(std::string_view key) const;

private:
  std::vector<Holder> keys_; ///< Named by SHA-256.
};

} // namespace paceline::apps::serve
