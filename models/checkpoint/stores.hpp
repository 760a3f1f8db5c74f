// Models that lie on this machine under names: those that Paceline has fetched itself, and those of
// other programs.
#pragma once

#include "models/checkpoint/model_name.hpp"
#include "paceline/error.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// The places of models, in the order in which a name is looked up in them.
enum class Store {
  paceline,     ///< What `paceline pull` has fetched (own_models).
  hugging_face, ///< The hub's cache: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub.
  lm_studio,    ///< ~/.lmstudio/models, before that ~/.cache/lm-studio/models.
  ollama,       ///< OLLAMA_MODELS, ~/.ollama/models, or its service's /usr/share/ollama.
};

/// Returns the program's own name, such as "Ollama".
const char* to_string(Store store);

struct StoredModel {
  ModelName name; ///< The variant of a GGUF file is its format where that tells it from others.
  Store store = Store::paceline;
  std::string location; ///< A folder, or a GGUF file, the first where there are several parts.
  std::string variant;  ///< The variant in full: a file's stem, or a tag; empty: it has none.
};

/// Lists the models of all stores, in the order of stores and by name within one. A name may stand
/// in several stores.
std::vector<StoredModel> stored_models();

/// Looks a name up. The first store that has a model of this base and variant answers. None: no
/// store has it. Error: there are several models of this base, and none is the usual one.
Result<std::optional<StoredModel>> find_stored(const ModelName& name);

/// Returns the folder of what Paceline fetches: PACELINE_MODELS, else paceline/models in
/// $XDG_DATA_HOME or ~/.local/share. It may not be there yet. None: the user has no home.
std::optional<std::filesystem::path> own_models();

/// A model that Paceline has fetched is a folder ORG/NAME or ORG/NAME:VARIANT in own_models() that
/// has this file, which says where it came from; the folder gets its name when it is whole.
inline constexpr std::string_view origin_file = ".paceline.json";

} // namespace paceline::models
