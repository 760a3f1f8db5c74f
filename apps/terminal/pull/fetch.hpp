// A model from the hub into a folder of its own.
#pragma once

#include "apps/terminal/pull/hub.hpp"
#include "apps/terminal/pull/selection.hpp"

#include <filesystem>
#include <stop_token>

namespace paceline::apps::pull {

/// Says what is fetched, and from where.
struct Wanted {
  models::ModelName name;
  std::string revision = "main";
};

/// What lies here in the end.
struct Fetched {
  models::ModelName name;
  bool was_here = false; ///< Nothing was fetched.
};

/// Fetches a model into its place below `models`; it has its name when it is whole and checked.
/// Errors: those of the hub and of the system; a model of that name and another revision is here;
/// `cancelled`. What came until then stays, and the next call goes on from there.
Result<Fetched> fetch_model(const HubAccess& access, const Wanted& wanted,
                            const std::filesystem::path& models, const std::stop_token& stop);

} // namespace paceline::apps::pull
