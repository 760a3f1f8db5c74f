#include "models/eagle3.hpp"

#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/families.hpp"
#include "models/head_ids.hpp"
#include "models/head_target.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
using text::shown;
using text::shown_path;

namespace {

constexpr int tapped_layers = 3;

/// Architectures that files of the authors' layout name.
constexpr std::string_view original_architectures[] = {"Eagle3LlamaForCausalLM", "LlamaForCausalLM",
                                                       "LlamaForCausalLMEagle3"};

bool is_original(const json::object& object) {
  const json::value* list = object.if_contains("architectures");
  return object.contains("draft_vocab_size") && list && list->is_array() &&
         list->get_array().size() == 1 && list->get_array()[0].is_string() &&
         std::ranges::count(original_architectures,
                            std::string_view(list->get_array()[0].get_string())) > 0;
}

tl::unexpected<Error> unknown_layout(const std::string& where, const std::string& what) {
  return fail(ErrorCode::unsupported, fmt::format("{}: {}", where, what),
              "give an EAGLE-3 head in its authors' layout or in that of speculators");
}

/// The contents of a head's config.json.
struct Eagle3Config {
  const char* layout = "";
  ModelConfig model;
  int target_hidden = 0; ///< Hidden size of the target that it was made for.
  /// Layers of the target whose inputs it reads; empty: the method's own choice.
  std::vector<int> taps;
};

/// Returns the config.json that the head's block would have as a model of its own.
Result<json::object> block_config(const std::string& where, const json::object& object,
                                  Eagle3Config& config) {
  const json::value* type = object.if_contains("speculators_model_type");
  if (type && *type != "eagle3")
    return unknown_layout(where, "speculators_model_type " + shown(json::serialize(*type)) +
                                     " is no EAGLE-3 head");
  const json::value* layer = object.if_contains("transformer_layer_config");
  if (type && (!layer || !layer->is_object()))
    return unknown_layout(where, "transformer_layer_config is not an object");
  if (!type && !is_original(object))
    return unknown_layout(where, "this is no EAGLE-3 head of a layout that is known");
  config.layout = type ? "speculators" : "original";
  json::object block = type ? layer->get_object() : object;
  if (!type) {
    block["architectures"] = json::array{"LlamaForCausalLM"};
    block["model_type"] = "llama";
  }
  return block;
}

/// Takes options out of an object of their own; options at the top have precedence.
json::object with_nested_options(json::object object) {
  const json::value* nested = object.if_contains("eagle_config");
  if (nested && nested->is_object())
    for (const auto& [key, value] : json::object(nested->get_object()))
      if (json::value& own = object[key]; own.is_null())
        own = value;
  return object;
}

void refuse_unknown(text::JsonFields& fields) {
  if (fields.boolean("parallel_drafting", false))
    fields.wrong(ErrorCode::unsupported, "parallel_drafting is not known for EAGLE-3 heads",
                 "use a head without it; its drafts would be wrong");
  if (!fields.boolean("use_aux_hidden_state", true))
    fields.wrong(ErrorCode::unsupported, "use_aux_hidden_state is false: this is an EAGLE-1 head",
                 "use an EAGLE-3 head");
}

std::vector<int> read_taps(text::JsonFields& fields) {
  constexpr const char* key = "eagle_aux_hidden_state_layer_ids";
  const json::value* list = fields.find(key);
  std::vector<int> taps;
  if (!list)
    return taps;
  for (const json::value& id : list->is_array() ? list->get_array() : json::array())
    if (id.is_int64() && id.get_int64() >= 0 && id.get_int64() < limits::layers_max)
      taps.push_back(int(id.get_int64()));
  if (taps.size() != tapped_layers || list->get_array().size() != tapped_layers)
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} {} are not three layers", key, shown(json::serialize(*list))),
                 "use a head that reads three hidden states of its target");
  return taps;
}

Result<ModelConfig> read_block(const std::string& where, json::object block) {
  block["tie_word_embeddings"] = false;
  return read_config(where, block);
}

/// Refuses a block of a family whose layers are not all attention: the first one reads the features
/// by it.
void check_attends(text::JsonFields& fields, const ModelConfig& model) {
  for (int layer = 0; layer < model.layers; ++layer)
    if (!model.attends(layer))
      fields.wrong(ErrorCode::unsupported,
                   fmt::format("layer {} of {} has no attention, which those of EAGLE-3 heads have",
                               layer, model.architecture),
                   "use a head whose layers are all attention");
}

/// Reads how many norms the hidden states have before they are combined (EAGLE-3.1).
int read_tap_norms(text::JsonFields& fields) {
  const bool whole = fields.boolean("norm_before_fc", false);
  const bool parts = fields.boolean("fc_norm", false);
  if (whole && parts)
    fields.wrong(ErrorCode::unsupported, "norm_before_fc and fc_norm are not known together",
                 "use a head with one of them");
  return whole ? 1 : parts ? tapped_layers : 0;
}

OuterNames names_in(const TensorFiles& files, const FusionConfig& fusion) {
  const bool original = files.has("midlayer.self_attn.q_proj.weight");
  OuterNames names = OuterNames::of({.prefix = ""});
  if (original)
    names = {"midlayer.", false, names.embedding, names.final_norm};
  names.fusion = "fc";
  names.tap_norm = fusion.tap_norms == 1 ? "input_norm" : "fc_norm.";
  names.fusion_norm = original ? "midlayer.hidden_norm" : "layers.0.hidden_norm";
  return names;
}

/// Opens the tensors. Many heads are pickled, and transformers, which has no class for them, cannot
/// convert them, so the error says how to.
Result<TensorFiles> open_files(const std::string& folder) {
  return TensorFiles::open(folder).map_error([&](Error error) {
    std::error_code ignored;
    if (std::filesystem::exists(folder + "/pytorch_model.bin", ignored))
      error.hint = "in Python, safetensors.torch.save_file(torch.load('pytorch_model.bin', "
                   "weights_only=True), 'model.safetensors') writes it";
    return error;
  });
}

Result<Eagle3Config> read_head_config(const std::string& folder) {
  const std::string where = shown_path(folder + "/config.json");
  const auto object = read_folder_config(folder);
  if (!object)
    return tl::unexpected(object.error());
  Eagle3Config config;
  auto model = block_config(where, *object, config).and_then([&](json::object&& block) {
    return read_block(where, std::move(block));
  });
  if (!model)
    return tl::unexpected(model.error());
  config.model = std::move(*model);
  const json::object options = with_nested_options(*object);
  text::JsonFields fields(where, options);
  refuse_unknown(fields);
  check_attends(fields, config.model);
  config.taps = read_taps(fields);
  config.target_hidden =
      int(fields.integer("target_hidden_size", 1, limits::hidden_max, config.model.hidden));
  FusionConfig fusion;
  fusion.features = tapped_layers * config.target_hidden;
  fusion.vocabulary = int(
      fields.integer("draft_vocab_size", 1, text::limits::vocabulary_max, config.model.vocabulary));
  fusion.norm_before_residual = fields.boolean("norm_before_residual", false);
  fusion.goes_on_normed = fields.boolean("norm_output", false);
  fusion.tap_norms = read_tap_norms(fields);
  config.model.fusion = fusion;
  config.model.architecture = "EAGLE-3 head";
  if (fields.error())
    return tl::unexpected(*fields.error());
  return config;
}

Result<std::vector<int>> taps_in(const ModelConfig& target, const std::string& name,
                                 const Eagle3Config& config) {
  const HeadTarget made_for{"head", target, name};
  if (const auto same = made_for.check_sizes(config.target_hidden, config.model.vocabulary); !same)
    return tl::unexpected(same.error());
  std::vector<int> taps = config.taps;
  if (taps.empty())
    taps = {2, target.layers / 2, target.layers - 3};
  for (const int layer : taps)
    if (layer < 0 || layer >= target.layers)
      return made_for.other(fmt::format("a layer {}, counted from 0", layer),
                            fmt::format("has {}", target.layers));
  return taps;
}

} // namespace

Result<HeadSource> open_eagle3(const std::string& folder, const ModelConfig& target,
                               const std::string& target_name) {
  auto config = read_head_config(folder);
  if (!config)
    return tl::unexpected(config.error());
  HeadSource head{folder, config->layout, config->model, {}, {}, nullptr, {}};
  auto taps = taps_in(target, target_name, *config);
  if (!taps)
    return tl::unexpected(taps.error());
  head.taps = std::move(*taps);
  auto files = open_files(folder);
  if (!files)
    return tl::unexpected(files.error());
  auto ids = read_head_ids(*files, head.model.logits(), head.model.vocabulary);
  if (!ids)
    return tl::unexpected(ids.error());
  head.target_ids = std::move(*ids);
  OuterNames names = names_in(*files, *head.model.fusion);
  head.tensors = std::make_unique<FolderTensors>(std::move(*files), BlockTensors(), head.model,
                                                 std::move(names));
  return head;
}

} // namespace paceline::models
