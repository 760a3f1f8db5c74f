#include "models/dflash.hpp"

#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/common_options.hpp"
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

constexpr const char* drafter_architecture = "DFlashDraftModel";
constexpr const char* block_family = "Qwen3ForCausalLM"; ///< Its layers are those of Qwen 3.

/// Options of `dflash_config` that are read, or are not needed.
constexpr std::string_view known_options[] = {"attention_sink_bias",  "attention_value_scale",
                                              "block_size",           "causal",
                                              "mask_token_id",        "sample_from_anchor",
                                              "swa_window_size",      "target_layer_ids",
                                              "use_aux_hidden_state", "use_swa"};

/// Options of speculators' drafters at the top of the file that mean what these of `dflash_config`
/// mean.
constexpr std::string_view top_options[] = {"mask_token_id", "sample_from_anchor"};

/// Returns an error of a file that is no drafter of a known layout.
tl::unexpected<Error> no_drafter(const std::string& where, const std::string& what) {
  return fail(ErrorCode::unsupported, fmt::format("{}: {}", where, what),
              "give a DFlash drafter in its authors' layout or in that of speculators");
}

bool in_authors_layout(const json::object& object) {
  const json::value* list = object.if_contains("architectures");
  return list && *list == json::value(json::array{json::value(drafter_architecture)});
}

/// The contents of a drafter's config.json.
struct DFlashConfig {
  const char* layout = "";
  ModelConfig model;
  int target_hidden = 0; ///< Hidden size of the target that it was made for, as the next:
  int target_layers = 0; ///< 0: the file does not say.
  std::vector<int> taps; ///< Layers of the target whose inputs it reads.
};

/// The parts of a file, the same for both layouts.
struct Parts {
  const char* layout;
  json::object block;   ///< Of the layers, as a model of its own would have it.
  json::object options; ///< As in `dflash_config`.
};

Result<Parts> speculators_parts(const std::string& where, const json::object& object) {
  const json::value& type = object.at("speculators_model_type");
  if (type != "dflash")
    return no_drafter(where, "speculators_model_type " + shown(json::serialize(type)) +
                                 " is no DFlash drafter");
  const json::value* layer = object.if_contains("transformer_layer_config");
  if (!layer || !layer->is_object())
    return no_drafter(where, "transformer_layer_config is not an object");
  Parts parts{"speculators", layer->get_object(), {}};
  for (const std::string_view key : top_options)
    if (const json::value* value = object.if_contains(key))
      parts.options[key] = *value;
  const json::value* both_ways = object.if_contains("sliding_window_non_causal");
  parts.options["causal"] = both_ways && *both_ways == false;
  return parts;
}

Result<Parts> parts_of(const std::string& where, const json::object& object) {
  if (object.contains("speculators_model_type"))
    return speculators_parts(where, object);
  if (!in_authors_layout(object))
    return no_drafter(where, "this is no DFlash drafter of a layout that is known");
  const json::value* options = object.if_contains("dflash_config");
  if (!options || !options->is_object())
    return no_drafter(where, "dflash_config is not an object");
  Parts parts{"original", object, options->get_object()};
  if (const json::value* causal = object.if_contains("is_causal"); causal && !causal->is_null())
    parts.options["causal"] = *causal; // has precedence
  return parts;
}

/// Reads the layers. What rows see is read apart: it is not what a model of the family would do.
Result<ModelConfig> read_drafter_layers(const std::string& where, json::object block) {
  if (const json::value* type = block.if_contains("model_type"); !type || *type != "qwen3")
    return no_drafter(where, "model_type is not qwen3, whose layers DFlash drafters have");
  block["architectures"] = json::array{json::value(block_family)};
  block["tie_word_embeddings"] = false;
  for (const char* key : {"layer_types", "sliding_window", "use_sliding_window"})
    block.erase(key);
  return read_config(where, block);
}

/// Refuses what would change drafts and is not known here.
void refuse_unknown(text::JsonFields& top, text::JsonFields& options, const json::object& given) {
  const auto refuse = [](text::JsonFields& fields, std::string_view key) {
    fields.wrong(ErrorCode::unsupported, fmt::format("{} is not known for DFlash drafters", key),
                 "use a drafter without it; its drafts would be wrong");
  };
  for (const auto& [key, value] : given)
    if (std::ranges::count(known_options, std::string_view(key)) == 0)
      refuse(options, shown(key));
  for (const char* key : {"attention_sink_bias", "sample_from_anchor"})
    if (options.boolean(key, false))
      refuse(options, key);
  if (options.number("attention_value_scale", 0, 1e9, 1) != 1)
    refuse(options, "attention_value_scale");
  if (!options.boolean("use_aux_hidden_state", true))
    refuse(options, "use_aux_hidden_state = false");
  if (top.boolean("add_swa_attention_sink_bias", false))
    refuse(top, "add_swa_attention_sink_bias");
  if (!top.boolean("is_neox_style", true))
    refuse(top, "is_neox_style = false");
}

/// Reads which positions the rows of a block see: all before the block, and all of the block or
/// those before them, in each layer.
void read_sight(text::JsonFields& block, text::JsonFields& options, ModelConfig& c) {
  const std::vector<int> types = layer_types(block, c, {"full_attention", "sliding_attention"});
  const bool some_slide = std::ranges::count(types, 1) > 0;
  const bool all_slide = !some_slide && options.boolean("use_swa", false);
  const bool says = options.find("causal") != nullptr;
  const bool causal = options.boolean("causal", false);
  const auto own = block.integer("sliding_window", 1, limits::context_max, 0);
  const auto window = options.integer("swa_window_size", 1, limits::context_max, own);
  for (int i = 0; i < c.layers; ++i) {
    const bool slides = all_slide || types[std::size_t(i)] == 1;
    LayerConfig& layer = c.mixers[std::size_t(i)];
    layer.both_ways = says ? !causal : types[std::size_t(i)] != 1;
    layer.window = slides ? int(window) : 0;
    if (slides && window == 0)
      block.wrong(ErrorCode::corrupt, "layers have windows, and sliding_window is not there", "");
    else if (slides && layer.both_ways)
      block.wrong(ErrorCode::unsupported,
                  fmt::format("layer {} has a window that looks both ways", i),
                  "use a drafter whose layers with windows are causal");
  }
}

/// Reads the layers of the target whose outputs (`target_layer_ids`) or inputs
/// (`aux_hidden_state_layer_ids`) are read. The output of the last one is nothing that a target
/// leaves.
std::vector<int> read_taps(text::JsonFields& fields, const char* key, int behind) {
  const json::value* list = fields.find(key);
  std::vector<int> taps;
  for (const json::value& id : list && list->is_array() ? list->get_array() : json::array())
    if (id.is_int64() && id.get_int64() >= 0 && id.get_int64() < limits::layers_max)
      taps.push_back(int(id.get_int64()) + behind);
  if (taps.empty() || taps.size() != list->get_array().size() ||
      taps.size() > limits::tapped_layers_max)
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("{} {} are not up to {} layers of a target", key,
                             list ? shown(json::serialize(*list)) : "(none)",
                             limits::tapped_layers_max),
                 "use a drafter that says which layers it reads");
  return taps;
}

FusionConfig read_fusion(text::JsonFields& top, text::JsonFields& options, const ModelConfig& c) {
  constexpr int most = limits::block_rows_max;
  FusionConfig fusion;
  fusion.joint = Joint::context;
  const bool own = options.find("block_size") != nullptr;
  fusion.block = int((own ? options : top).integer("block_size", 2, most));
  fusion.mask = TokenId(options.integer("mask_token_id", 0, c.vocabulary - 1));
  fusion.vocabulary =
      int(top.integer("draft_vocab_size", 1, text::limits::vocabulary_max, c.vocabulary));
  return fusion;
}

Result<DFlashConfig> read_drafter_config(const std::string& folder) {
  const std::string where = shown_path(folder + "/config.json");
  const auto object = read_folder_config(folder);
  if (!object)
    return tl::unexpected(object.error());
  const auto parts = parts_of(where, *object);
  if (!parts)
    return tl::unexpected(parts.error());
  auto model = read_drafter_layers(where, parts->block);
  if (!model)
    return tl::unexpected(model.error());
  DFlashConfig config{parts->layout, std::move(*model), 0, 0, {}};
  text::JsonFields top(where, *object);
  text::JsonFields block(where, parts->block);
  text::JsonFields options(where + ": dflash_config", parts->options);
  refuse_unknown(top, options, parts->options);
  read_sight(block, options, config.model);
  config.taps = top.find("aux_hidden_state_layer_ids")
                    ? read_taps(top, "aux_hidden_state_layer_ids", 0)
                    : read_taps(options, "target_layer_ids", 1);
  config.target_hidden =
      int(top.integer("target_hidden_size", 1, limits::hidden_max, config.model.hidden));
  config.target_layers = int(top.integer("num_target_layers", 1, limits::layers_max, 0));
  config.model.fusion = read_fusion(top, options, config.model);
  config.model.fusion->features = int(config.taps.size()) * config.target_hidden;
  config.model.architecture = "DFlash drafter";
  for (const text::JsonFields* each : {&top, &block, &options})
    if (each->error())
      return tl::unexpected(*each->error());
  return config;
}

Result<void> check_target(const ModelConfig& target, const std::string& name,
                          const DFlashConfig& config) {
  const HeadTarget made_for{"drafter", target, name};
  if (auto same = made_for.check_sizes(config.target_hidden, config.model.vocabulary); !same)
    return same;
  const auto has = fmt::format("has {}", target.layers);
  if (config.target_layers > 0 && target.layers != config.target_layers)
    return made_for.other(fmt::format("{} layers", config.target_layers), has);
  for (const int tap : config.taps)
    if (tap >= target.layers)
      return made_for.other(fmt::format("more than {} layers", tap), has);
  return {};
}

/// Opens the tensors. An embedding of the mask that lies beside them is pickled.
Result<TensorFiles> open_drafter_files(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/mask_embedding.pt", ignored))
    return fail(ErrorCode::unsupported,
                shown_path(folder) + "/mask_embedding.pt holds an embedding that is not read here",
                "use a drafter whose mask token has its embedding in the target's table");
  return TensorFiles::open(folder);
}

OuterNames outer_names() {
  OuterNames names = OuterNames::of({.prefix = ""});
  names.fusion = "fc";
  names.fusion_norm = "hidden_norm";
  return names;
}

} // namespace

Result<HeadSource> open_dflash(const std::string& folder, const ModelConfig& target,
                               const std::string& target_name) {
  auto config = read_drafter_config(folder);
  if (!config)
    return tl::unexpected(config.error());
  if (const auto fits = check_target(target, target_name, *config); !fits)
    return tl::unexpected(fits.error());
  HeadSource head{folder, config->layout, config->model, config->taps, {}, nullptr, {}};
  auto files = open_drafter_files(folder);
  if (!files)
    return tl::unexpected(files.error());
  if (head.model.logits() != head.model.vocabulary || files->has("d2t")) {
    auto ids = read_head_ids(*files, head.model.logits(), head.model.vocabulary);
    if (!ids)
      return tl::unexpected(ids.error());
    head.target_ids = std::move(*ids);
  }
  head.tensors =
      std::make_unique<FolderTensors>(std::move(*files), BlockTensors(), head.model, outer_names());
  return head;
}

} // namespace paceline::models
