// Reports on checkpoints and pairs of them, for people and for programs.
#pragma once

#include "apps/terminal/inspect/checkpoint.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps {

/// Returns the object of docs/program.md.
boost::json::object checkpoint_json(const Checkpoint& checkpoint);
boost::json::object pair_json(const Pair& pair);

/// Returns a text. role: what the checkpoint is called, `target` or `draft`.
std::string checkpoint_text(const Checkpoint& checkpoint, const std::string& role);
std::string pair_text(const Pair& pair);

} // namespace paceline::apps
