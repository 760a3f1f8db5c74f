#include "models/gemma4_assistant.hpp"

#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/families.hpp"
#include "models/head_target.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
using text::shown;
using text::shown_path;

namespace {

constexpr const char* layers_family = "Gemma4ForCausalLM";
constexpr const char* ordering = "masked_embedding.token_ordering";
/// A cluster's ids are a multiple of these (gpu::Operations::expert_linear).
constexpr int ids_together = 16;

/// Returns the config.json that the layers would have as a model of its own.
Result<json::object> block_config(const std::string& where, const json::object& object) {
  const auto unknown = [&](const std::string& what) {
    return fail(ErrorCode::unsupported, fmt::format("{}: {}", where, what),
                "give a Gemma 4 assistant, as transformers writes it");
  };
  const json::value* type = object.if_contains("model_type");
  if (!type || *type != "gemma4_assistant")
    return unknown("model_type " + (type ? shown(json::serialize(*type)) : "is missing, and") +
                   " is no Gemma 4 assistant's");
  const json::value* text = object.if_contains("text_config");
  if (!text || !text->is_object())
    return unknown("text_config is not an object");
  json::object block = text->get_object();
  block["architectures"] = json::array{layers_family};
  block["tie_word_embeddings"] = true;
  return block;
}

/// Refuses layers that are not those of an assistant, and takes out what says that they are.
void check_layers(text::JsonFields& fields, json::object& block) {
  const auto refuse = [&](const char* key, const std::string& what) {
    fields.wrong(ErrorCode::unsupported, fmt::format("{} {}", key, what),
                 "use an assistant as transformers knows it");
  };
  for (const char* key : {"hidden_size_per_layer_input", "vocab_size_per_layer_input"})
    if (const json::value* value = fields.find(key); !value || *value != 0)
      refuse(key, "is not 0, as in all assistants");
  for (const char* key : {"enable_moe_block", "use_double_wide_mlp"})
    if (fields.boolean(key, false))
      refuse(key, "is not known for assistants");
  const auto layers = fields.integer("num_hidden_layers", 1, limits::layers_max);
  const auto shared = fields.integer("num_kv_shared_layers", 0, limits::layers_max, 0);
  if (shared != 0 && shared != layers)
    refuse("num_kv_shared_layers",
           fmt::format("{} leaves layers with keys of their own, of {}", shared, layers));
  block.erase("num_kv_shared_layers");
  block.erase("vocab_size_per_layer_input");
}

Result<ModelConfig> read_layers(const std::string& where, json::object block) {
  const json::object stated = block;
  text::JsonFields fields(where + ": text_config", stated);
  check_layers(fields, block);
  if (fields.error())
    return tl::unexpected(*fields.error());
  return read_config(where, block);
}

ClusterConfig read_clusters(text::JsonFields& fields, int vocabulary) {
  ClusterConfig out;
  out.clusters = int(fields.integer("num_centroids", 1, limits::experts_max, 2048));
  out.used = int(fields.integer("centroid_intermediate_top_k", 1, limits::experts_max, 32));
  if (vocabulary % (ids_together * out.clusters) != 0 || out.used > out.clusters)
    fields.wrong(ErrorCode::unsupported,
                 fmt::format("num_centroids {} of {} ids, of which a row has {}, are not known",
                             out.clusters, vocabulary, out.used),
                 "use an assistant whose clusters have a multiple of 16 ids");
  return out;
}

/// Reads the ids in the order of their clusters.
Result<std::vector<TokenId>> read_order(TensorFiles& files, int vocabulary) {
  const auto entry = files.take(ordering, {vocabulary}, 0);
  if (!entry)
    return tl::unexpected(entry.error());
  if ((*entry)->type != StoredType::i64)
    return files.wrong(ordering, fmt::format("is of {}, not I64", to_string((*entry)->type)));
  std::vector<std::int64_t> stored(std::size_t(vocabulary), 0);
  std::memcpy(stored.data(), (*entry)->bytes.data(), (*entry)->bytes.size());
  std::vector<TokenId> order;
  std::vector<char> taken(std::size_t(vocabulary), 0);
  for (const std::int64_t id : stored) {
    if (id < 0 || id >= vocabulary || std::exchange(taken[std::size_t(id)], 1))
      return files.wrong(ordering, "does not have each id once");
    order.push_back(TokenId(id));
  }
  return order;
}

bool slides(const ModelConfig& config, int layer) {
  return config.mixers[std::size_t(layer)].window > 0;
}

/// Gives the head's layers the keys of the target's last layers that have some, which it returns in
/// the order in which they lie in the features: for each kind the first of the head's layers takes
/// them, and the others read them there.
class KeySharing {
public:
  KeySharing(ModelConfig& head, const HeadTarget& target)
      : head_(head), target_(target.config), made_for_(target) {}

  Result<std::vector<int>> share() {
    std::vector<int> sources;
    for (int i = 0; i < head_.layers; ++i) {
      LayerConfig& layer = head_.mixers[std::size_t(i)];
      layer.keys_as_values = false;
      if (const int first = first_alike(i); first < i) {
        layer.keys_of = first;
        continue;
      }
      layer.keys_given = true;
      const int source = source_of(i);
      if (source < 0)
        return made_for_.other("layers of each type that it has", "does not");
      if (auto same = check_same(i, source); !same)
        return tl::unexpected(same.error());
      sources.push_back(source);
    }
    // A row sees as many positions before that of its token, which has no keys yet.
    for (LayerConfig& layer : head_.mixers)
      layer.window += layer.window > 0 ? 1 : 0;
    return sources;
  }

private:
  int first_alike(int layer) const {
    int first = 0;
    while (slides(head_, first) != slides(head_, layer))
      ++first;
    return first;
  }

  int source_of(int layer) const {
    int source = target_.layers - 1;
    while (source >= 0 &&
           (!target_.stores(source) || slides(target_, source) != slides(head_, layer)))
      --source;
    return source;
  }

  Result<void> check_same(int layer, int source) const {
    const auto heads = [](const ModelConfig& c, int i) {
      return fmt::format("{} heads of {} dimensions", c.kv_heads_in(i), c.head_dim_in(i));
    };
    if (heads(head_, layer) == heads(target_, source))
      return {};
    return made_for_.other("keys of " + heads(head_, layer),
                           fmt::format("has {} in layer {}", heads(target_, source), source));
  }

  ModelConfig& head_;
  const ModelConfig& target_;
  const HeadTarget& made_for_;
};

struct AssistantConfig {
  ModelConfig model;
  int target_hidden = 0;
};

Result<AssistantConfig> read_assistant(const std::string& folder) {
  const std::string where = shown_path(folder + "/config.json");
  const auto object = read_folder_config(folder);
  if (!object)
    return tl::unexpected(object.error());
  auto model = block_config(where, *object).and_then([&](json::object&& block) {
    return read_layers(where, std::move(block));
  });
  if (!model)
    return tl::unexpected(model.error());
  AssistantConfig out{std::move(*model)};
  text::JsonFields fields(where, *object);
  out.target_hidden = int(fields.integer("backbone_hidden_size", 1, limits::hidden_max, 1536));
  FusionConfig fusion;
  fusion.joint = Joint::whole;
  fusion.vocabulary = out.model.vocabulary;
  fusion.width = out.target_hidden;
  if (fields.boolean("use_ordered_embeddings", false))
    fusion.clusters = read_clusters(fields, fusion.vocabulary);
  if (fields.error())
    return tl::unexpected(*fields.error());
  out.model.fusion = std::move(fusion);
  out.model.logit_soft_cap = 0; // The order of ids is the same, and the method has none.
  out.model.architecture = "Gemma 4 assistant";
  return out;
}

/// Fits the layers to the target; returns the layers whose keys they read.
Result<std::vector<int>> fit(ModelConfig& head, const ModelConfig& target,
                             const std::string& target_name) {
  const HeadTarget made_for{"assistant", target, target_name};
  if (!target.architecture.starts_with("Gemma4"))
    return made_for.other("the layers of a Gemma 4", "is a " + target.architecture);
  if (auto same = made_for.check_sizes(head.fusion->width, head.vocabulary); !same)
    return tl::unexpected(same.error());
  head.embedding_scale = target.embedding_scale;
  auto sources = KeySharing(head, made_for).share();
  if (!sources)
    return sources;
  head.fusion->features = target.hidden;
  for (const int layer : *sources)
    head.fusion->features += target.key_values(layer);
  return sources;
}

/// A file may have the output head under its own name, or as the table that it is tied to, which
/// nothing else reads.
OuterNames names_in(TensorFiles& files) {
  OuterNames names = OuterNames::of({});
  if (files.has("lm_head.weight"))
    files.ignore_all(names.embedding + ".");
  else
    names.head = names.embedding;
  names.embedding = "";
  names.fusion = "pre_projection";
  names.fusion_out = "post_projection";
  names.clusters = "masked_embedding.centroids";
  return names;
}

} // namespace

Result<HeadSource> open_gemma4_assistant(const std::string& folder, const ModelConfig& target,
                                         const std::string& target_name) {
  auto config = read_assistant(folder);
  if (!config)
    return tl::unexpected(config.error());
  HeadSource head{folder, "gemma4-assistant", std::move(config->model), {target.layers}, {}, {},
                  {}};
  auto sources = fit(head.model, target, target_name);
  if (!sources)
    return tl::unexpected(sources.error());
  head.key_taps = std::move(*sources);
  auto files = TensorFiles::open(folder);
  if (!files)
    return tl::unexpected(files.error());
  if (std::optional<ClusterConfig>& clusters = head.model.fusion->clusters) {
    auto order = read_order(*files, head.model.vocabulary);
    if (!order)
      return tl::unexpected(order.error());
    head.target_ids = clusters->order = std::move(*order);
  }
  OuterNames names = names_in(*files);
  head.tensors = std::make_unique<FolderTensors>(
      std::move(*files), family_of(layers_family).tensors, head.model, std::move(names));
  return head;
}

} // namespace paceline::models
