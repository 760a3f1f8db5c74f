// Which of a model's files at the hub are fetched.
#pragma once

#include "apps/terminal/pull/hub.hpp"
#include "models/checkpoint/model_name.hpp"

#include <cstdint>
#include <vector>

namespace paceline::apps::pull {

/// The files of one model. They lie in one folder, whatever folders they have at the hub, and no
/// two have the same name.
struct Selection {
  models::ModelName name;     ///< The variant is set for a GGUF model.
  std::vector<HubFile> files; ///< The smallest first, so that what is wrong shows early.

  std::uint64_t bytes() const;
};

/// Chooses the checkpoint, or the GGUF file (all parts of it) where a variant is asked for or there
/// is no checkpoint. Errors: there is neither, no such variant, or several and none is usual.
Result<Selection> select_files(const models::ModelName& asked, const std::vector<HubFile>& files);

} // namespace paceline::apps::pull
