// paceline inspect: what a checkpoint holds, whether two make a pair, and what this machine offers.
#include "apps/command.hpp"
#include "apps/devices.hpp"
#include "apps/inspect_division.hpp"
#include "apps/node/survey.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "gpu/mx.hpp"
#include "gpu/operations.hpp"
#include "models/eagle3.hpp"
#include "models/families.hpp"
#include "models/sources.hpp"
#include "speculation/limits.hpp"
#include "text/vocabulary_map.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  std::optional<std::string> draft;
  std::optional<WeightFormat> weights;
  EngineOptions engine;         ///< Devices of the target, and how it is divided among them.
  std::function<bool()> placed; ///< Whether any of that was given.
  bool devices = false;
  std::string node; ///< Whose devices; empty: this machine's.
  NodeTls node_tls;
  bool families = false;
  bool json = false;
};

/// All that a folder says, without loading a model from it.
struct Checkpoint {
  std::string name;
  std::string folder;
  models::ModelConfig config;
  models::GenerationDefaults defaults;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::uint64_t parameters = 0;
  std::vector<std::string> dtypes;
  std::map<std::string, std::uint64_t> bytes; ///< Of weights, by part.
  gpu::DType cache_dtype = gpu::DType::bf16;
  std::optional<WeightFormat> format = {}; ///< That its blocks would be quantized to,
  std::uint64_t saved_bytes = 0;           ///< and what that saves.
  std::uint64_t kept_bytes = 0;            ///< Of what no format quantizes.
  std::uint64_t shared_bytes = 0;          ///< That are the target's, too: a draft out of it.
  /// Of a head on the target: its layout, and the layers whose inputs it reads.
  std::string head_layout = {};
  std::vector<int> target_layers = {};

  std::uint64_t kv_bytes_per_token() const {
    gpu::KvLayout layout{config.layers, config.kv_heads, config.head_dim};
    layout.dtype = cache_dtype;
    return layout.token_bytes() + std::uint64_t(config.features()) * sizeof(float);
  }
  std::uint64_t weight_bytes() const {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t(0),
                           [](std::uint64_t sum, const auto& part) { return sum + part.second; });
  }
  /// As its format has them.
  std::uint64_t loaded_bytes() const { return weight_bytes() - saved_bytes; }
};

const char* name_of(models::ModelPart part) {
  switch (part) {
  case models::ModelPart::embedding: return "embedding";
  case models::ModelPart::head: return "output head";
  case models::ModelPart::norms: return "norms";
  case models::ModelPart::attention: return "attention";
  case models::ModelPart::feed_forward: return "feed-forward";
  case models::ModelPart::other: break;
  }
  return "other";
}

/// What is left of a block's matrices: elements, and a scale for each block of them.
std::uint64_t quantized_bytes(WeightFormat format, std::uint64_t elements) {
  const auto bits = std::uint64_t(gpu::element_bits(format) * gpu::mx_block + 8);
  return elements * bits / (8 * gpu::mx_block);
}

void add_tensors(Checkpoint& checkpoint, const models::TensorSource& source) {
  using enum models::ModelPart;
  std::set<std::string> dtypes;
  for (const auto& tensor : source.tensors()) {
    checkpoint.bytes[name_of(tensor.part)] += tensor.bytes;
    checkpoint.parameters += tensor.elements;
    if (!tensor.format.empty())
      dtypes.emplace(tensor.format);
    if (tensor.part != attention && tensor.part != feed_forward)
      checkpoint.kept_bytes += tensor.bytes;
    else if (checkpoint.format && !tensor.quantized)
      checkpoint.saved_bytes += tensor.bytes - quantized_bytes(*checkpoint.format, tensor.elements);
  }
  checkpoint.dtypes.assign(dtypes.begin(), dtypes.end());
  checkpoint.cache_dtype = source.dtype() == gpu::DType::bf16 ? gpu::DType::bf16 : gpu::DType::f32;
}

/// Moves a result's value to `out`, or hands its error on.
template <class T>
Result<void> assign(T& out, Result<T> result) {
  if (!result)
    return tl::unexpected(result.error());
  out = std::move(*result);
  return {};
}

Result<Checkpoint> read_checkpoint(const std::string& name, const std::string& role,
                                   const std::optional<WeightFormat>& format) {
  const auto source = models::open_checkpoint(name, role);
  if (!source)
    return tl::unexpected(source.error());
  const models::CheckpointSource& from = **source;
  Checkpoint c;
  c.name = name;
  c.format = format;
  c.folder = from.location();
  std::unique_ptr<models::TensorSource> tensors;
  const auto read = assign(c.config, from.config())
                        .and_then([&] { return assign(c.defaults, from.generation_defaults()); })
                        .and_then([&] { return assign(c.tokenizer, from.tokenizer()); })
                        .and_then([&] { return assign(tensors, from.tensors(c.config)); });
  if (!read)
    return tl::unexpected(read.error());
  add_tensors(c, *tensors);
  return c;
}

/// The target once more: what is not quantized is the target's.
Result<Checkpoint> read_self_draft(const Options& options, const std::string& name) {
  return models::self_draft_format(name)
      .and_then(
          [&](WeightFormat format) { return read_checkpoint(options.model, "target", format); })
      .map([&](Checkpoint&& draft) {
        draft.name = name;
        draft.shared_bytes = draft.kept_bytes;
        return std::move(draft);
      });
}

/// A head on the target, whose tokenizer it has. The target leaves what it reads in its pages.
Result<Checkpoint> read_head_draft(Checkpoint& target, const std::string& name) {
  Checkpoint c;
  c.name = name;
  c.tokenizer = target.tokenizer;
  c.defaults = target.defaults;
  models::Eagle3Config config;
  models::Eagle3Tensors tensors;
  const models::ModelConfig& t = target.config;
  const auto read =
      assign(c.folder, models::resolve_model_path(models::eagle3_source(name), "eagle3"))
          .and_then([&] { return assign(config, models::read_eagle3_config(c.folder)); })
          .and_then([&] {
            return assign(c.target_layers,
                          models::taps_in({target.name, t.hidden, t.vocabulary, t.layers}, config));
          })
          .and_then([&] { return assign(tensors, models::read_eagle3_tensors(c.folder, config)); });
  if (!read)
    return tl::unexpected(read.error());
  c.config = config.model;
  c.head_layout = config.layout;
  target.config.taps = c.target_layers;
  add_tensors(c, *tensors.tensors);
  return c;
}

Result<Checkpoint> read_draft(const Options& options, Checkpoint& target, const std::string& name) {
  if (models::is_self_draft(name))
    return read_self_draft(options, name);
  return models::is_eagle3_draft(name) ? read_head_draft(target, name)
                                       : read_checkpoint(name, "draft", options.weights);
}

boost::json::object pieces_json(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  boost::json::object pieces;
  for (const TokenId id : ids)
    pieces[std::to_string(id)] = tokenizer.piece(id);
  return pieces;
}

boost::json::object checkpoint_json(const Checkpoint& c) {
  boost::json::object bytes(c.bytes.begin(), c.bytes.end());
  boost::json::object object{
      {"name", c.name},
      {"folder", c.folder},
      {"architecture", c.config.architecture},
      {"parameters", c.parameters},
      {"dtypes", boost::json::array(c.dtypes.begin(), c.dtypes.end())},
      {"weight_bytes", std::move(bytes)},
      {"kv_bytes_per_token", c.kv_bytes_per_token()},
      {"layers", c.config.layers},
      {"hidden", c.config.hidden},
      {"heads", c.config.heads},
      {"kv_heads", c.config.kv_heads},
      {"head_dim", c.config.head_dim},
      {"ffn", c.config.ffn},
      {"max_model_len", c.config.context},
      {"sliding_window", c.config.window()},
      {"vocabulary", c.config.vocabulary},
      {"tokenizer_vocabulary", c.tokenizer->vocabulary()},
      {"special_tokens", pieces_json(*c.tokenizer, c.tokenizer->special_ids())},
      {"end_of_text", ids_json(c.defaults.end_of_text)}};
  if (c.format)
    object["quantized"] = {{"weights", to_string(*c.format)}, {"weight_bytes", c.loaded_bytes()}};
  if (c.shared_bytes > 0)
    object["shared_bytes"] = c.shared_bytes;
  if (!c.head_layout.empty())
    object["head"] = {{"layout", c.head_layout},
                      {"target_layers", boost::json::value_from(c.target_layers)},
                      {"says", c.config.logits()}};
  return object;
}

std::string sampling_text(const sampling::Warping& w) {
  return w.greedy() ? "greedy"
                    : fmt::format("temperature {}, top-k {}, top-p {}, min-p {}", w.temperature,
                                  w.top_k, w.top_p, w.min_p);
}

std::string special_text(const Checkpoint& c) {
  constexpr std::size_t shown = 8; // Some vocabularies reserve hundreds.
  const std::vector<TokenId> ids = c.tokenizer->special_ids();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(ids.size(), shown); ++i)
    texts.push_back(fmt::format("{} {}", ids[i], c.tokenizer->piece(ids[i])));
  if (ids.size() > shown)
    texts.push_back(fmt::format("and {} more", ids.size() - shown));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string context_text(const models::ModelConfig& m) {
  return fmt::format("{} tokens", m.context) +
         (m.window() > 0 ? fmt::format(", of which each sees {}", m.window()) : "");
}

std::string vocabulary_text(const Checkpoint& c) {
  const int known = c.tokenizer->vocabulary();
  return fmt::format("{} ids, of which the tokenizer has {}", c.config.vocabulary, known) +
         (known < c.config.vocabulary ? "; no other is ever drawn" : "");
}

std::string checkpoint_text(const Checkpoint& c, const std::string& role) {
  const models::ModelConfig& m = c.config;
  std::string parts;
  for (const auto& [part, bytes] : c.bytes)
    parts += fmt::format("    {:<14} {:>12}\n", part, human_bytes(bytes));
  if (c.format)
    parts += fmt::format("    {:<14} {:>12}\n", fmt::format("as {}", to_string(*c.format)),
                         human_bytes(c.loaded_bytes()));
  const std::string head =
      c.head_layout.empty()
          ? ""
          : fmt::format(
                "  head             {} layout; reads what goes into layers {} of the target, "
                "and says {} of its ids\n",
                c.head_layout, fmt::join(c.target_layers, ", "), m.logits());
  if (c.shared_bytes > 0)
    parts += fmt::format("    {:<14} {:>12}\n", "the target's", human_bytes(c.shared_bytes));
  return fmt::format("{}: {}\n  folder           {}\n  architecture     {}\n{}"
                     "  parameters       {:.2f} M, {}\n  shape            {} layers, width {}, "
                     "{} heads ({} for keys and values) of {}, feed-forward {}\n"
                     "  context          {}\n  vocabulary       {}\n"
                     "  special tokens   {}\n  end of text      {}\n  sampling         {}\n"
                     "  weights          {}\n{}  KV cache         {} a token, {} a full context\n",
                     role, c.name, c.folder, m.architecture, head, double(c.parameters) / 1e6,
                     fmt::join(c.dtypes, ", "), m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim,
                     m.ffn, context_text(m), vocabulary_text(c), special_text(c),
                     fmt::join(c.defaults.end_of_text, ", "), sampling_text(c.defaults.warping),
                     human_bytes(c.weight_bytes()), parts, human_bytes(c.kv_bytes_per_token()),
                     human_bytes(c.kv_bytes_per_token() * std::uint64_t(m.context)));
}

/// What is to be said of two checkpoints together.
struct Pair {
  Result<std::shared_ptr<const text::VocabularyMap>> map; ///< Null: the vocabulary is one.
  std::uint64_t bytes; ///< Weights, and the caches of one sequence of the target's whole context.
  int draft_context;   ///< Beyond it the draft is left out; 0: it reads as far as the target.
};

Pair pair_of(const Checkpoint& target, const Checkpoint& draft) {
  const auto context = std::uint64_t(target.config.context);
  auto map = text::map_vocabularies(*target.tokenizer, *draft.tokenizer);
  const auto slots = std::uint64_t(map && *map ? speculation::limits::draft_slots_per_token : 1);
  return {std::move(map),
          target.loaded_bytes() + draft.loaded_bytes() - draft.shared_bytes +
              context * (target.kv_bytes_per_token() + slots * draft.kv_bytes_per_token()),
          draft.config.context < target.config.context ? draft.config.context : 0};
}

boost::json::object pair_json(const Pair& pair) {
  boost::json::object object{{"compatible", pair.map.has_value()},
                             {"bytes", pair.bytes},
                             {"draft_context", pair.draft_context}};
  if (!pair.map) {
    object["reason"] = pair.map.error().text();
  } else {
    const auto* map = pair.map->get();
    object["vocabulary"] = map ? "mapped" : "same";
    object["shared_tokens"] = map ? map->share() : 1.0;
  }
  return object;
}

std::string vocabularies_text(const text::VocabularyMap* map) {
  if (!map)
    return "one vocabulary";
  return fmt::format("two vocabularies, mapped by bytes: the draft has {:.1f} % of the target's "
                     "tokens ({} of {}), and says no others",
                     100 * map->share(), map->shared(), map->known());
}

std::string pair_text(const Pair& pair) {
  if (!pair.map)
    return "pair: cannot work together: " + pair.map.error().text() + "\n";
  std::string text = fmt::format("pair: {}; they can work together\n"
                                 "  memory           {}, one full context included\n",
                                 vocabularies_text(pair.map->get()), human_bytes(pair.bytes));
  if (pair.draft_context > 0)
    text += fmt::format("  draft's context  {} tokens; beyond, the target goes on alone\n",
                        pair.draft_context);
  return text;
}

Result<int> show_checkpoints(const Options& options, const std::optional<std::string>& draft_name) {
  auto target = read_checkpoint(options.model, "target", options.weights);
  if (!target)
    return tl::unexpected(target.error());
  std::optional<Checkpoint> draft;
  if (draft_name) {
    auto read = read_draft(options, *target, *draft_name);
    if (!read)
      return tl::unexpected(read.error());
    draft = std::move(*read);
  }
  boost::json::object object{{"target", checkpoint_json(*target)}};
  std::string text = checkpoint_text(*target, "target");
  if (options.placed()) {
    EngineOptions engine = options.engine;
    engine.target = options.model;
    engine.weights = options.weights;
    const auto divided = divide_model(engine);
    if (!divided)
      return tl::unexpected(divided.error());
    object["target"].as_object()["division"] = division_json(*divided);
    text += "\n" + division_text(*divided);
  }
  if (draft) {
    const Pair pair = pair_of(*target, *draft);
    object["draft"] = checkpoint_json(*draft);
    object["pair"] = pair_json(pair);
    text += "\n" + checkpoint_text(*draft, "draft") + "\n" + pair_text(pair);
  }
  return options.json ? print_json(object) : print_text(text);
}

Result<int> show_families(bool as_json) {
  boost::json::array list;
  std::string text;
  for (const models::Family& family : models::known_families()) {
    list.push_back({{"architecture", family.architecture},
                    {"model_type", family.model_type},
                    {"models", family.models}});
    text += fmt::format("{:<20} {}\n", family.architecture, family.models);
  }
  return as_json ? print_json({{"families", std::move(list)}}) : print_text(text);
}

Result<int> run(const Options& options) {
  if (!options.node.empty())
    return show_node(options.node, options.node_tls, options.json);
  if (options.devices)
    return show_devices(options.json);
  if (options.families)
    return show_families(options.json);
  if (options.draft || options.model != "demo")
    return show_checkpoints(options, options.draft);
  return show_checkpoints(options, "demo");
}

constexpr const char* footer = R"(Examples:
  paceline inspect
  paceline inspect ~/models/target --draft-model ~/models/draft
  paceline inspect ~/models/large --device cuda:0 --device cuda:1 --tensor-parallel-size 2
  paceline inspect --devices --json
  paceline inspect --devices --node 127.0.0.1:7000)";

} // namespace

Command add_inspect(CLI::App& program) {
  auto* app = program.add_subcommand("inspect", "Show what a checkpoint or this machine holds");
  auto options = std::make_shared<Options>();
  app->add_option("model,-m,--model", options->model,
                  "A folder, a hub id in the local Hugging Face cache, or demo")
      ->capture_default_str()
      ->type_name("MODEL");
  app->add_option(
         "-d,--draft-model", options->draft,
         "Show this one too, and whether they pair; self:FORMAT: the model itself, quantized; "
         "eagle3:DIR: an EAGLE-3 head on it")
      ->type_name("MODEL");
  add_weight_format(*app, "--weights", options->weights,
                    "Show the memory with blocks quantized to mxfp8, mxfp6, mxfp4 ...");
  auto* devices = app->add_flag("--devices", options->devices, "Show the devices of this machine");
  app->add_option("--node", options->node, "Show those of a node instead, and its models")
      ->needs(devices)
      ->type_name("HOST:PORT");
  app->add_flag("--families", options->families, "Show the families of models that are known")
      ->excludes(devices);
  add_json_option(*app, options->json);
  add_node_certificates(*app, options->node_tls);
  add_device_options(*app, options->engine);
  options->placed = [app] {
    return app->count("--device") + app->count("--pipeline-parallel-size") +
               app->count("--tensor-parallel-size") + app->count("--stage-layers") >
           0;
  };
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
