#include "models/checkpoint/stores.hpp"

#include "models/checkpoint/digest.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>

namespace paceline::models {
namespace fs = std::filesystem;
namespace json = boost::json;
namespace {

std::optional<fs::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<fs::path>(value) : std::nullopt;
}

std::optional<fs::path> in_home(const char* path) {
  const auto home = environment_path("HOME");
  return home ? std::optional(*home / path) : std::nullopt;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string file_name(const fs::path& path) {
  return path.filename().string();
}

using Found = std::vector<StoredModel>;

/// Adds a model unless its name is none that could be asked for. full: the variant in full.
void add_model(Found& found, Store store, const ModelName& name, const fs::path& location,
               const std::string& full) {
  if (const auto valid = parse_model_name(name.text()))
    found.push_back({*valid, store, location.string(), full});
}

/// Adds the checkpoint that a folder is, and each GGUF model in it.
void add_folder(Found& found, Store store, const std::string& base, const fs::path& folder) {
  const auto files = gguf_models(folder);
  if (files.empty() || is_there(folder / "config.json"))
    add_model(found, store, {base, ""}, folder, "");
  std::vector<std::string> variants;
  for (const fs::path& file : files)
    variants.push_back(gguf_variant(gguf_stem(file_name(file))));
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string stem = gguf_stem(file_name(files[i]));
    const bool alone = std::ranges::count(variants, variants[i]) == 1;
    add_model(found, store, {base, alone ? variants[i] : stem}, files[i], stem);
  }
}

void add_own(Found& found) {
  for (const fs::path& org : sorted_entries(own_models().value_or(fs::path())))
    for (const fs::path& model : sorted_entries(org))
      if (const auto name = parse_model_name(file_name(org) + "/" + file_name(model));
          name && is_there(model / origin_file)) {
        const auto files = gguf_models(model);
        if (name->variant.empty() || files.empty())
          add_model(found, Store::paceline, *name, model, name->variant);
        else
          add_model(found, Store::paceline, *name, files.front(),
                    gguf_stem(file_name(files.front())));
      }
}

/// Returns the hub's cache, found as huggingface_hub finds it.
std::optional<fs::path> hub_cache() {
  if (auto cache = environment_path("HF_HUB_CACHE"))
    return cache;
  if (auto home = environment_path("HF_HOME"))
    return *home / "hub";
  if (auto cache = environment_path("XDG_CACHE_HOME"))
    return *cache / "huggingface/hub";
  return in_home(".cache/huggingface/hub");
}

/// Returns the folder of a cached model's main branch.
std::optional<fs::path> snapshot_in(const fs::path& repository) {
  std::ifstream ref(repository / "refs/main");
  std::string revision;
  ref >> revision;
  if (revision.empty() || revision.size() > 64 || revision.find('/') != revision.npos)
    return {};
  const fs::path snapshot = repository / "snapshots" / revision;
  std::error_code ignored;
  return fs::is_directory(snapshot, ignored) ? std::optional(snapshot) : std::nullopt;
}

void add_hub_cache(Found& found) {
  constexpr std::string_view cached = "models--"; // followed by org--name
  for (const fs::path& repository : sorted_entries(hub_cache().value_or(fs::path()))) {
    std::string base = file_name(repository);
    const auto separator = base.find("--", cached.size());
    if (!base.starts_with(cached) || separator == base.npos)
      continue;
    base = base.replace(separator, 2, "/").substr(cached.size());
    if (const auto snapshot = snapshot_in(repository))
      add_folder(found, Store::hugging_face, base, *snapshot);
  }
}

void add_lm_studio(Found& found) {
  for (const char* place : {".lmstudio/models", ".cache/lm-studio/models"})
    for (const fs::path& org : sorted_entries(in_home(place).value_or(fs::path())))
      for (const fs::path& model : sorted_entries(org))
        if (is_there(model / "config.json") || !gguf_models(model).empty())
          add_folder(found, Store::lm_studio, file_name(org) + "/" + file_name(model), model);
}

/// Returns the file that a manifest of Ollama's names as the model's weights. None: it names none,
/// or one in several pieces.
std::optional<fs::path> blob_of(const fs::path& models, const fs::path& manifest) {
  constexpr std::string_view algorithm = "sha256:";
  const auto object = read_json_object(manifest.string());
  const json::value* layers = object ? object->if_contains("layers") : nullptr;
  std::vector<fs::path> blobs;
  for (const json::value& layer :
       layers && layers->is_array() ? layers->get_array() : json::array())
    if (const json::object* fields = layer.if_object()) {
      const json::value* type = fields->if_contains("mediaType");
      const json::value* digest = fields->if_contains("digest");
      if (!type || *type != "application/vnd.ollama.image.model" || !digest || !digest->is_string())
        continue;
      std::string hex(digest->get_string());
      hex.erase(0, hex.starts_with(algorithm) ? algorithm.size() : 0);
      if (Digest::is_hex(hex))
        blobs.push_back(models / "blobs" / ("sha256-" + hex));
    }
  return blobs.size() == 1 && is_there(blobs.front()) ? std::optional(blobs.front()) : std::nullopt;
}

/// Ollama has a manifest for each model: manifests/HOST/ORG/NAME/TAG.
void add_ollama_at(Found& found, const fs::path& models) {
  struct Host {
    const char* name;
    const char* unnamed; ///< The organisation that stands in no model's name.
  };
  for (const Host& host :
       {Host{"registry.ollama.ai", "library"}, Host{"hf.co", ""}, Host{"huggingface.co", ""}})
    for (const fs::path& org : sorted_entries(models / "manifests" / host.name))
      for (const fs::path& model : sorted_entries(org))
        for (const fs::path& tag : sorted_entries(model))
          if (const auto blob = blob_of(models, tag))
            add_model(
                found, Store::ollama,
                {(file_name(org) == host.unnamed ? "" : file_name(org) + "/") + file_name(model),
                 file_name(tag)},
                *blob, file_name(tag));
}

void add_ollama(Found& found) {
  if (const auto named = environment_path("OLLAMA_MODELS"))
    return add_ollama_at(found, *named);
  if (const auto own = in_home(".ollama/models"))
    add_ollama_at(found, *own);
  add_ollama_at(found, "/usr/share/ollama/.ollama/models");
}

struct Reader {
  Store store;
  const char* name;
  void (*add)(Found&);
};
constexpr std::array readers{Reader{Store::paceline, "Paceline", add_own},
                             Reader{Store::hugging_face, "Hugging Face", add_hub_cache},
                             Reader{Store::lm_studio, "LM Studio", add_lm_studio},
                             Reader{Store::ollama, "Ollama", add_ollama}};

Found models_of(const Reader& reader) {
  Found found;
  reader.add(found);
  std::ranges::stable_sort(found, {}, [](const StoredModel& m) { return m.name.text(); });
  return found;
}

/// Chooses among the models of one base in one store. A bare name means the one without a variant
/// where there is one.
Result<StoredModel> choose_stored(const ModelName& name, const Found& models) {
  std::vector<std::string> variants;
  for (const StoredModel& model : models)
    if (variants.push_back(model.variant); same_but_case(model.name.variant, name.variant))
      return model;
  return choose_variant(name.base, variants, name.variant).map([&](std::size_t index) {
    return models[index];
  });
}

} // namespace

const char* to_string(Store store) {
  return std::ranges::find(readers, store, &Reader::store)->name;
}

std::optional<fs::path> own_models() {
  if (auto named = environment_path("PACELINE_MODELS"))
    return named;
  if (const auto data = environment_path("XDG_DATA_HOME"); data && data->is_absolute())
    return *data / "paceline/models";
  return in_home(".local/share/paceline/models");
}

Found stored_models() {
  Found all;
  for (const Reader& reader : readers)
    std::ranges::move(models_of(reader), std::back_inserter(all));
  return all;
}

Result<std::optional<StoredModel>> find_stored(const ModelName& name) {
  for (const Reader& reader : readers) {
    Found models = models_of(reader);
    std::erase_if(models, [&](const StoredModel& m) { return m.name.base != name.base; });
    if (models.empty())
      continue;
    auto chosen = choose_stored(name, models);
    if (chosen || chosen.error().code != ErrorCode::not_found)
      return std::move(chosen).map([](StoredModel&& model) { return std::optional(model); });
  }
  return std::optional<StoredModel>();
}

} // namespace paceline::models
