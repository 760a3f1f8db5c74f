// Whether a target is the one that a head was made for.
#pragma once

#include "models/config.hpp"
#include "paceline/error.hpp"

#include <string>
#include <string_view>

namespace paceline::models {

/// A head's target, for errors that name what differs.
struct HeadTarget {
  std::string_view kind; ///< Of the head: "head", "drafter", "assistant".
  const ModelConfig& config;
  const std::string& name;

  /// Returns the error of a head that wants another one. what: what its own has; has: what this one
  /// does, with its verb.
  tl::unexpected<Error> other(const std::string& what, const std::string& has) const;
  /// Checks the sizes that every head names.
  Result<void> check_sizes(int hidden, int vocabulary) const;
};

} // namespace paceline::models
