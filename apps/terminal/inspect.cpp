// paceline inspect: the contents of a checkpoint, whether two make a pair, and this machine's
// devices.
#include "actors/option_check.hpp"
#include "apps/console/command.hpp"
#include "apps/console/devices.hpp"
#include "apps/console/options.hpp"
#include "apps/console/output.hpp"
#include "apps/console/steady_time.hpp"
#include "apps/console/survey.hpp"
#include "apps/terminal/inspect/checkpoint.hpp"
#include "apps/terminal/inspect/division.hpp"
#include "apps/terminal/inspect/report.hpp"
#include "gpu/device.hpp"
#include "models/families.hpp"
#include "models/load.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  std::optional<std::string> draft;
  std::optional<WeightFormat> weights;
  EngineOptions engine;         ///< Caches, devices of the target, and its division among them.
  std::function<bool()> placed; ///< Whether any of these options was given.
  bool devices = false;
  std::string node; ///< Node whose devices are listed; empty: this machine's.
  NodeTls node_tls;
  bool families = false;
  bool json = false;
};

/// Whether the draft is a look-up, which has no checkpoint to read and goes with any target.
bool is_lookup(const std::optional<std::string>& draft) {
  return draft == "suffix" || draft == "ngram";
}

/// Returns what a draft keeps keys and values as where the target is.
KvCacheDtype kept_by_draft(const EngineOptions& engine) {
  const models::LoadOptions how = models::load_formats(engine, "draft");
  const auto device =
      gpu::open_device(engine.devices.front(), {0, std::make_shared<SteadyTime>(), nullptr});
  return device ? models::settled(how, {*device}).kv_cache_dtype : how.kv_cache_dtype;
}

Result<int> show_checkpoints(const Options& options, const std::optional<std::string>& draft_name) {
  auto target = read_checkpoint(options.model, "target", options.weights);
  if (!target)
    return tl::unexpected(target.error());
  std::optional<Checkpoint> draft;
  if (draft_name && !is_lookup(draft_name)) {
    auto read = read_draft(*draft_name, *target, options.weights);
    if (!read)
      return tl::unexpected(read.error());
    draft = std::move(*read);
    draft->cache_as(kept_by_draft(options.engine));
  }
  target->cache_as(options.engine.kv_cache_dtype);
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
  } else if (is_lookup(draft_name)) {
    object["draft"] = {{"name", *draft_name}, {"lookup", true}};
    object["pair"] = {{"compatible", true}};
    text += fmt::format("\ndraft: {}, looked up in the text: it has no weights, and goes with any "
                        "target\n",
                        *draft_name);
  }
  return options.json ? print_json(object) : print_text(text);
}

Result<int> show_families(bool as_json) {
  boost::json::array list;
  std::string text;
  std::size_t width = 0;
  for (const models::Family& family : models::known_families())
    width = std::max(width, std::string_view(family.architecture).size());
  for (const models::Family& family : models::known_families()) {
    list.push_back({{"architecture", family.architecture},
                    {"model_type", family.model_type},
                    {"models", family.models}});
    text += fmt::format("{:<{}} {}\n", family.architecture, width, family.models);
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
  EngineOptions engine = options.engine;
  engine.target = options.model;
  engine.drafters = {options.draft.value_or("auto")};
  const std::string draft = actors::draft_name(engine); // Other commands choose alike.
  const bool none = draft.empty() || (!options.draft && draft == "suffix");
  return show_checkpoints(options, none ? std::nullopt : std::optional(draft));
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
                  "A .gguf file, a folder, a name that paceline list shows, or demo")
      ->capture_default_str()
      ->type_name("MODEL");
  app->add_option(
         "-d,--draft-model", options->draft,
         "Show this one too, and whether they pair; self:FORMAT: the model itself, quantized; "
         "mtp: the block that it brings to draft; eagle3:DIR: an EAGLE-3 head on it; dflash:DIR: a "
         "DFlash drafter on it; gemma4-assistant:DIR: the drafter that ships with a Gemma 4; "
         "suffix, ngram, none or auto: as for generate")
      ->type_name("MODEL");
  add_weight_format(*app, "--weights", options->weights,
                    "Show the memory with blocks quantized to mxfp8, mxfp6, mxfp4 ...");
  add_kv_cache_dtype(*app, options->engine);
  add_draft_kv_cache_dtype(*app, options->engine);
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
