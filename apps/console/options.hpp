// The options that commands share, bound to the fields of the library's own EngineOptions and
// Request: this is the only place where the command line meets them.
#pragma once

#include "apps/console/input.hpp"
#include "apps/console/validators.hpp"
#include "paceline/engine.hpp"
#include "paceline/request.hpp"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

struct ParserNames;

/// Adds -m, --device, --reserve-device, -t, --dtype, --weights, --head-weights, --weight-scales, -c
/// and --kv-memory.
void add_model_options(CLI::App& app, EngineOptions& engine);
/// Adds only --device and the options that divide the target among several devices.
void add_device_options(CLI::App& app, EngineOptions& engine);
void add_kv_cache_dtype(CLI::App& app, EngineOptions& engine);
void add_draft_kv_cache_dtype(CLI::App& app, EngineOptions& engine);
/// Adds --scheduling-policy, --batching, --row-budget and --time-between-tokens.
void add_batching_options(CLI::App& app, EngineOptions& engine);
/// Adds -d, --draft-device, --draft-weights, --max-num-seqs, --prefill, --prefill-chunk,
/// --speculation, --window, --lookahead and --verify.
void add_speculation_options(CLI::App& app, EngineOptions& engine, Request& request);
/// Adds --temperature, --top-k, --top-p, --min-p and penalties.
void add_distribution_options(CLI::App& app, Request& request);
/// Adds --json-schema, --grammar, --regex, -n, --min-tokens, --temperature, --top-k, --top-p,
/// --min-p, penalties, --seed, --stop and --ignore-eos.
void add_sampling_options(CLI::App& app, Request& request);
/// Adds [PROMPT], -p and -f. name: what the text is called.
void add_prompt_options(CLI::App& app, PromptSource& prompt, const std::string& name);
/// Adds --tool-call-parser and --reasoning-parser.
void add_parser_options(CLI::App& app, ParserNames& parsers);
void add_trace_option(CLI::App& app, EngineOptions& engine);
CLI::Option* add_json_option(CLI::App& app, bool& json);

/// Adds --node-cert and its like.
void add_node_certificates(CLI::App& app, NodeTls& tls);

/// Adds --weights or its like: one of the microscaling formats, or of `more`.
CLI::Option* add_weight_format(CLI::App& app, const std::string& flag,
                               std::optional<WeightFormat>& format, const std::string& description,
                               const std::vector<WeightFormat>& more = {});
/// Adds an option for several formats, with commas between them.
CLI::Option* add_weight_formats(CLI::App& app, const std::string& flag,
                                std::vector<WeightFormat>& formats, const std::string& description);

void add_weight_scales(CLI::App& app, ScaleChoice& scales);

/// Whether both devices are simulated, so that time can be virtual.
bool simulated(const EngineOptions& engine);

} // namespace paceline::apps
