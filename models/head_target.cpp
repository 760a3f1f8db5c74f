#include "models/head_target.hpp"

#include "text/json.hpp"

#include <fmt/format.h>

namespace paceline::models {

tl::unexpected<Error> HeadTarget::other(const std::string& what, const std::string& has) const {
  return fail(ErrorCode::invalid_argument,
              fmt::format("the {} was made for a target with {}, and {} {}", kind, what,
                          text::shown_path(name), has),
              fmt::format("give the target that the {} was made for", kind));
}

Result<void> HeadTarget::check_sizes(int hidden, int vocabulary) const {
  if (config.hidden != hidden)
    return other(fmt::format("hidden_size {}", hidden), fmt::format("has {}", config.hidden));
  if (config.vocabulary != vocabulary)
    return other(fmt::format("vocab_size {}", vocabulary),
                 fmt::format("has {}", config.vocabulary));
  return {};
}

} // namespace paceline::models
