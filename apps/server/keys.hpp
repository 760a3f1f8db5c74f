// API keys, which decide who may ask.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// The client that a request belongs to.
struct Holder {
  std::string name; ///< Tells nothing of the key; empty if everybody may ask.
  int weight = 1;   ///< Weight of its share of the engine (Request::client_weight).
};

/// A set of API keys. It keeps digests only, so that a key appears in no log, core file or
/// comparison of lengths.
class Keys {
public:
  /// Makes an empty set: everybody may ask.
  Keys() = default;

  /// Reads the keys. file: one key a line, followed by weight=N if its share of the engine differs
  /// from that of others; empty lines and those that begin with # do not count. If no file is
  /// named, the environment's `variable` is read, which may hold several keys, separated by commas.
  static Result<Keys> load(const std::string& file, const char* variable = "PACELINE_API_KEY");

  void add(std::string_view key, int weight = 1);
  bool required() const { return !keys_.empty(); }
  /// Whether this key is known. authorization: a request's header field, "Bearer KEY". Takes
  /// equally long whatever it holds.
  bool accept(std::string_view authorization) const;
  /// Returns the holder of the key in this header field.
  Holder holder(std::string_view authorization) const;

private:
  std::vector<Holder> keys_; ///< The name is the key's SHA-256.
};

} // namespace paceline::apps::serve
