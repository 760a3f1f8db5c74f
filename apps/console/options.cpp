#include "apps/console/options.hpp"

#include "actors/engine_fields.hpp"
#include "actors/limits.hpp"
#include "actors/option_check.hpp"
#include "apps/console/chat/chat_style.hpp"
#include "apps/console/validators.hpp"
#include "gpu/mx.hpp"
#include "models/limits.hpp"
#include "paceline/event.hpp"
#include "sampling/fields.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps {
namespace {

constexpr const char* models_group = "Models and devices";
constexpr const char* speculation_group = "Speculation";
constexpr const char* sampling_group = "Sampling (defaults: the model's own)";
constexpr const char* output_group = "Output";

void add_endings(CLI::App& app, Request& request) {
  add_number<Request>(app, request, sampling::request_number("max_tokens"));
  add_number<Request>(app, request, sampling::request_number("min_tokens"));
  app.add_option("--stop", request.stop, "End before this text; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--ignore-eos", request.ignore_eos, "Go on after the model's end of text");
}

/// Sets one draft, or a look-up and a model in any order.
void set_drafts(EngineOptions& engine, std::vector<std::string> given) {
  const bool both =
      std::ranges::count(given, "suffix") == 1 && std::ranges::count(given, "none") == 0;
  if (given.size() > 2 || (given.size() == 2 && !both))
    throw CLI::ValidationError("--draft-model",
                               "is given " + std::to_string(given.size()) +
                                   " times: give one draft, or suffix and a model");
  engine.drafters = std::move(given);
}

void add_draft_option(CLI::App& app, EngineOptions& engine) {
  app.add_option_function<std::vector<std::string>>(
         "-d,--draft-model",
         [&engine](const std::vector<std::string>& given) { set_drafts(engine, given); },
         "What drafts: a model (a .gguf file, a folder or a name), self:FORMAT (the target "
         "itself, quantized to "
         "mxfp4, mxfp6 ...), mtp (the block that the target's checkpoint brings for it), "
         "eagle3:DIR (an EAGLE-3 head on it), dflash:DIR (a DFlash drafter on it), "
         "gemma4-assistant:DIR (the drafter that ships with a Gemma 4), "
         "suffix or ngram (looked up in the text), none, or "
         "auto: demo for the target demo, mtp where there is one, else suffix; suffix and a model: "
         "both")
      ->allow_extra_args(false)
      ->default_str(engine.drafters.front())
      ->type_name("MODEL|self:FORMAT|mtp|eagle3:DIR|dflash:DIR|gemma4-assistant:DIR|suffix|ngram|"
                  "none");
}

CLI::Option* add_mode_option(CLI::App& app, EngineOptions& engine) {
  return add_choice(app, "--speculation", engine.speculation, choices_of<SpeculationMode>(),
                    "How draft and target work together");
}

void add_window_options(CLI::App& app, EngineOptions& engine) {
  const auto set_window = [&engine](const std::string& given) {
    engine.window = given == "auto" ? std::nullopt : std::optional(std::stoi(given));
  };
  const auto& window = actors::engine_number("window");
  app.add_option_function<std::string>(std::string(window.options), set_window,
                                       std::string(window.effect))
      ->check(automatic_or(window.range))
      ->type_name("auto|K");
  add_choice(app, "--lookahead", engine.lookahead, choices_of<Lookahead>(),
             "What overlap drafts past a window that is being verified");
  add_number(app, engine, actors::engine_number("fork_rows"));
  add_number(app, engine, actors::engine_number("tree_rows"));
}

/// Adds an option whose value is the name of a format, or "none".
template <class Format>
void add_parser_option(CLI::App& app, const std::string& name, std::optional<std::string>& parser,
                       std::span<const Format> formats, const std::string& what) {
  Choices<std::optional<std::string>> choices{{"none", "none"}};
  for (const Format& format : formats)
    choices.emplace_back(format.name, std::string(format.name));
  add_choice(app, name, parser, choices, what);
}

/// Checks that there is a draft if speculation was asked for.
void settle_draft(EngineOptions& engine, const CLI::Option& mode) {
  engine.drafters = actors::drafter_names(engine);
  const bool speculates =
      engine.speculation == SpeculationMode::sync || engine.speculation == SpeculationMode::overlap;
  if (speculates && engine.drafters.empty())
    throw CLI::ValidationError(mode.get_name(),
                               fmt::format("cannot be '{}' without a draft: name a --draft-model, "
                                           "such as self:mxfp4, the target itself",
                                           to_string(engine.speculation)));
}

/// Adds the options for the form of answers, at most one of which may be given.
void add_form_options(CLI::App& app, Request& request) {
  const auto add = [&](const char* name, Constraint::Kind kind, bool in_a_file, const char* what) {
    const auto take = [&request, kind, in_a_file, name](const std::string& given) {
      auto text = in_a_file ? read_text({std::nullopt, given}) : Result<std::string>(given);
      if (!text)
        throw CLI::ValidationError(name, text.error().text());
      request.constraint = Constraint{kind, std::move(*text), {}};
    };
    return app.add_option_function<std::string>(name, take, what)
        ->type_name(in_a_file ? "FILE" : "TEXT");
  };
  app.option_defaults()->group("Form of the answer");
  auto* schema = add("--json-schema", Constraint::Kind::json_schema, true,
                     "JSON that the schema in this file describes");
  auto* grammar =
      add("--grammar", Constraint::Kind::grammar, true, "What the EBNF (GBNF) in this file allows");
  auto* regex = add("--regex", Constraint::Kind::regex, false, "What this expression matches");
  app.add_flag_function(
         "--disable-any-whitespace",
         [&request](std::int64_t) {
           if (request.constraint) // otherwise what is missing is told
             request.constraint->any_whitespace = false;
         },
         "The JSON has one blank behind each comma and colon, and no other")
      ->needs(schema);
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

CLI::Validator weight_format(const Choices<WeightFormat>& choices) {
  const auto check = [choices](const std::string& given) {
    return meaning(choices, given) ? std::string() : not_acceptable(given, names(choices));
  };
  return CLI::Validator(check, "");
}

/// Adds the options for a draft or a stage on a node.
void add_node_options(CLI::App& app, EngineOptions& engine) {
  add_number(app, engine, actors::engine_number("draft_top_k"));
  add_choice<NumberFormat>(app, "--node-rows", engine.node_rows,
                           {{"f32", NumberFormat::f32}, {"bf16", NumberFormat::bf16}},
                           "Format of hidden states to and from stages on nodes; bf16: half the "
                           "bytes, rounded");
  add_node_certificates(app, engine.node_tls);
}

} // namespace

void add_node_certificates(CLI::App& app, NodeTls& tls) {
  app.add_option("--node-cert", tls.certificate, "What this machine shows to nodes (PEM)")
      ->type_name("FILE");
  app.add_option("--node-key", tls.key, "And its key")->type_name("FILE");
  app.add_option("--node-ca", tls.authority, "Who signs the certificates of both")
      ->type_name("FILE");
}

CLI::Option* add_weight_format(CLI::App& app, const std::string& flag,
                               std::optional<WeightFormat>& format, const std::string& description,
                               const std::vector<WeightFormat>& more) {
  auto choices = choices_of<WeightFormat>();
  for (const WeightFormat other : more)
    choices.emplace_back(to_string(other), other);
  const auto set = [&format, choices](const std::string& given) {
    format = meaning(choices, given);
  };
  return app.add_option_function<std::string>(flag, set, description)
      ->check(weight_format(choices))
      ->type_name("FORMAT");
}

CLI::Option* add_weight_formats(CLI::App& app, const std::string& flag,
                                std::vector<WeightFormat>& formats,
                                const std::string& description) {
  const auto set = [&formats](const std::vector<std::string>& given) {
    formats.clear();
    for (const std::string& name : given)
      formats.push_back(*meaning(choices_of<WeightFormat>(), name));
  };
  return app.add_option_function<std::vector<std::string>>(flag, set, description)
      ->check(weight_format(choices_of<WeightFormat>()))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FORMAT,...");
}

void add_parser_options(CLI::App& app, ParserNames& parsers) {
  add_parser_option(app, "--tool-call-parser", parsers.tools, text::tool_formats(),
                    "How the model writes calls of functions; default: as its chat template says");
  add_parser_option(
      app, "--reasoning-parser", parsers.reasoning, text::reasoning_formats(),
      "Marks around its reasoning; none: it is content; default: as its template says");
}

void add_weight_scales(CLI::App& app, ScaleChoice& scales) {
  add_choice(app, "--weight-scales", scales, choices_of<ScaleChoice>(),
             "How blocks that are quantized find their scales");
}

void add_kv_cache_dtype(CLI::App& app, EngineOptions& engine) {
  add_choice(app, "--kv-cache-dtype", engine.kv_cache_dtype, choices_of<KvCacheDtype>(),
             "What keys and values are kept as; auto, weights: 16 bits, or 32 with such weights");
}

void add_draft_kv_cache_dtype(CLI::App& app, EngineOptions& engine) {
  add_choice(app, "--draft-kv-cache-dtype", engine.draft_kv_cache_dtype, choices_of<KvCacheDtype>(),
             "The same as --kv-cache-dtype of the draft, where it changes no answer; auto: what is "
             "faster");
}

void add_device_options(CLI::App& app, EngineOptions& engine) {
  app.add_option_function<std::vector<std::string>>(
         "--device", [&engine](const std::vector<std::string>& given) { engine.devices = given; },
         "cpu, cpu:0-3, cuda:0, cuda:0/0-15 or sim:PROFILE; given again: the target in stages, one "
         "on each "
         "(behind the first also on node://HOST:PORT/DEVICE), or in shards")
      ->default_str(engine.devices.front())
      ->allow_extra_args(false)
      ->type_name("DEVICE");
  app.add_option("--pipeline-parallel-size", engine.pipeline_parallel_size,
                 "Stages of the target; default: as many as there are devices")
      ->check(whole_number(1, int(actors::limits::stages_max)))
      ->type_name("N");
  app.add_option("--tensor-parallel-size", engine.tensor_parallel_size,
                 "Devices that share each layer of a stage: N x M --device, stage by stage")
      ->check(whole_number(1, int(actors::limits::stages_max)))
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--stage-layers", engine.stage_layers,
                 "Layers of each stage; default: by what they cost")
      ->check(whole_number(1, models::limits::layers_max))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,...");
}

void add_model_options(CLI::App& app, EngineOptions& engine) {
  app.option_defaults()->group(models_group);
  app.add_option("-m,--model", engine.target,
                 "Target model: a .gguf file, a folder, a name that paceline list shows, or demo")
      ->capture_default_str()
      ->type_name("MODEL");
  app.add_option("--chat-template", engine.chat_template,
                 "A file with a Jinja template that goes before the target's own")
      ->type_name("FILE");
  add_device_options(app, engine);
  app.add_option("--reserve-device", engine.reserve_device,
                 "Holds the target's weights, too, and goes on when --device keeps failing; for "
                 "stages on nodes another node")
      ->type_name("DEVICE");
  add_number(app, engine, actors::engine_number("threads"));
  add_choice(app, "--dtype", engine.dtype, choices_of<NumberFormat>(),
             "Format of the weights; auto: the checkpoint's");
  add_weight_format(app, "--weights", engine.weights,
                    "Quantize the target's blocks while loading: mxfp8, mxfp8-e5m2, mxfp6, "
                    "mxfp6-e3m2, mxfp4 or mxint8");
  add_weight_format(app, "--head-weights", engine.head_weights, "The same of the output heads");
  add_weight_scales(app, engine.weight_scales);
  add_choice(
      app, "--activations", engine.activations, choices_of<Activations>(),
      "What rows are rounded to before products with weights of 4 to 8 bits, on CPUs; auto: bf16");
  add_kv_cache_dtype(app, engine);
  app.add_option("-c,--max-model-len,--ctx-size", engine.max_model_len,
                 "Tokens of context; 0: what the model was trained for")
      ->capture_default_str()
      ->check(whole_number(0, models::limits::context_max))
      ->type_name("N");
  app.add_option("--kv-memory", engine.kv_memory_bytes,
                 "Memory for both KV caches and the drafts' distributions; 0: chosen")
      ->transform(memory_size())
      ->type_name("SIZE");
}

void add_draft_devices(CLI::App& app, EngineOptions& engine) {
  app.add_option_function<std::vector<std::string>>(
         "--draft-device",
         [&engine](const std::vector<std::string>& given) { engine.draft_devices = given; },
         "Default: chosen for --device; node://HOST:PORT: one of a node's; given again: the draft "
         "in stages, or in shards")
      ->allow_extra_args(false)
      ->type_name("DEVICE");
  app.add_option("--draft-pipeline-parallel-size", engine.draft_pipeline_parallel_size,
                 "Stages of the draft; default: as many as it has devices")
      ->check(whole_number(1, int(actors::limits::stages_max)))
      ->type_name("N");
  app.add_option("--draft-tensor-parallel-size", engine.draft_tensor_parallel_size,
                 "Devices that share each layer of the draft: all of its devices")
      ->check(whole_number(1, int(actors::limits::stages_max)))
      ->capture_default_str()
      ->type_name("M");
}

void add_speculation_options(CLI::App& app, EngineOptions& engine, Request& request) {
  app.option_defaults()->group(speculation_group);
  add_draft_option(app, engine);
  app.add_option("--draft-memory", engine.draft_memory_bytes,
                 "What suffix may remember of texts and recent outputs; default: 64M")
      ->transform(memory_size())
      ->type_name("SIZE");
  add_draft_devices(app, engine);
  add_node_options(app, engine);
  add_weight_format(app, "--draft-weights", engine.draft_weights,
                    "Quantize the draft's blocks while loading, as --weights does the target's");
  add_choice(
      app, "--draft-activations", engine.draft_activations, choices_of<Activations>(),
      "The same as --activations of the draft, where it changes no answer; auto: what is faster");
  add_draft_kv_cache_dtype(app, engine);
  add_number(app, engine, actors::engine_number("max_num_seqs"));
  add_choice(app, "--prefill", engine.prefill, choices_of<Prefill>(),
             "How prompts are read; fast: by cuBLASLt, on cuda devices")
      ->group(models_group);
  add_number(app, engine, actors::engine_number("prefill_chunk"))->group(models_group);
  const auto* mode = add_mode_option(app, engine);
  add_window_options(app, engine);
  add_choice(app, "--verify", request.verify, choices_of<VerifyRule>(),
             "How drafted tokens are judged; auto: coupled with a seed, else rejection");
  app.parse_complete_callback([&engine, mode] { settle_draft(engine, *mode); });
}

void add_batching_options(CLI::App& app, EngineOptions& engine) {
  app.option_defaults()->group("Batches");
  add_choice(app, "--scheduling-policy", engine.scheduling, choices_of<SchedulingPolicy>(),
             "Who is taken up first; fcfs: as they came, clients in turn");
  add_choice(app, "--batching", engine.batching, choices_of<Batching>(),
             "Rows of a step; hybrid: all streams, and prompts in what is left");
  const auto& rows = actors::engine_number("row_budget");
  app.add_option_function<std::string>(
         std::string(rows.options),
         [&engine](const std::string& given) {
           engine.row_budget = given == "auto" ? 0 : std::stoi(given);
         },
         std::string(rows.effect))
      ->check(automatic_or({1, rows.range.most, true})) // 0 is auto in the library.
      ->type_name("auto|N");
  app.add_option_function<int>(
         "--time-between-tokens",
         [&engine](int given) { engine.time_between_tokens = std::chrono::milliseconds(given); },
         "Milliseconds that such a step may take; default: no objective")
      ->check(whole_number(1, int(actors::limits::fault_time_max.count())))
      ->type_name("MS");
}

void add_distribution_options(CLI::App& app, Request& request) {
  app.option_defaults()->group(sampling_group);
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (field.warps())
      add_number<Request>(app, request, field);
}

void add_sampling_options(CLI::App& app, Request& request) {
  add_form_options(app, request);
  app.option_defaults()->group(sampling_group);
  add_endings(app, request);
  add_distribution_options(app, request);
  app.add_option("--seed", request.sampling.seed,
                 "Repeats a run, with the --verify it reported; default: drawn and reported")
      ->check(seed_number())
      ->type_name("N");
}

void add_prompt_options(CLI::App& app, PromptSource& prompt, const std::string& name) {
  app.option_defaults()->group("Input");
  auto* text = app.add_option(name + ",-p,--prompt", prompt.text,
                              "The " + name + "; - or none: standard input, taken as it is");
  text->type_name("TEXT");
  app.add_option("-f,--file", prompt.file, "Read the " + name + " from a file")
      ->type_name("FILE")
      ->excludes(text);
}

void add_trace_option(CLI::App& app, EngineOptions& engine) {
  app.option_defaults()->group(output_group);
  app.add_option("--trace", engine.trace_file,
                 "Write what lanes and actors did, for ui.perfetto.dev")
      ->check(writable_file())
      ->type_name("FILE");
}

CLI::Option* add_json_option(CLI::App& app, bool& json) {
  app.option_defaults()->group(output_group);
  return app.add_flag("--json", json, "Print one JSON object");
}

bool simulated(const EngineOptions& engine) {
  const auto is_sim = [](const std::string& device) { return device.starts_with("sim:"); };
  const auto may_be = [&](const std::string& device) { return device.empty() || is_sim(device); };
  return std::ranges::all_of(engine.devices, is_sim) &&
         std::ranges::all_of(engine.draft_devices, is_sim) && may_be(engine.reserve_device);
}

} // namespace paceline::apps
