// A model whose distributions are a known function of the last few tokens: the oracle of the
// statistical tests, and the model of runs that only measure the runtime.
#pragma once

#include "models/checkpoint/source.hpp"
#include "text/tokenizer.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Two scripted models with the same seed form a pair: the draft's rows overlap the target's so
/// that 1 - TV(p, q) is `acceptance` in every context.
struct ScriptedOptions {
  int vocabulary = 64;
  int memory = 3; ///< Tokens of context the distribution depends on (0: none).
  std::uint64_t seed = 1;
  double acceptance = 1; ///< Target: 1. Draft: sum of min(p, q) with the target's row.
  int context = 1 << 20;
  /// A rejected token's place is taken by the draft's likeliest others as often as on the demo pair
  /// at temperature 0.8: by the first 1, 2, 4, 8 with probability 0.28, 0.40, 0.51, 0.61.
  bool ranked = false;
  bool peaked = false; ///< One token has 0.6 of the mass and more; a close draft finds it too.
};
/// True for "scripted" and "scripted:...".
bool is_scripted(std::string_view name);
/// "scripted", or "scripted:vocabulary=8,memory=2,seed=7,acceptance=0.8".
Result<ScriptedOptions> parse_scripted(std::string_view name);

/// The distribution after `context` (its last `memory` tokens): [vocabulary], sums to 1.
std::vector<double> scripted_row(const ScriptedOptions& options, std::span<const TokenId> context);

/// It keeps its context in its cache pages (one id per slot), so that a wrong or stale page shows
/// as wrong output. Runs on devices whose memory the host can read (cpu, sim).
Result<std::shared_ptr<const Model>> make_scripted(const ScriptedOptions& options,
                                                   std::shared_ptr<gpu::Device> device);

/// The same in stages, one for each device, of a layer each. Each keeps the context in pages of its
/// own and hands on what it found there, so that a wrong or stale page of any of them shows, and
/// rows that were taken for each other. As with a transformer's (load_transformer) those of devices
/// elsewhere are StageElsewhere, and where the last one is, the head is one stage more.
Result<std::vector<std::shared_ptr<const Model>>>
make_scripted_stages(const ScriptedOptions& options,
                     std::span<const std::shared_ptr<gpu::Device>> devices);

/// Some of `all` layers, one in fact, for a machine that has no others (LoadOptions::only).
Result<std::shared_ptr<const Model>> make_scripted_stage(const ScriptedOptions& options,
                                                         const LayerRange& layers, int all,
                                                         std::shared_ptr<gpu::Device> device);

/// What "scripted:..." names: a model, a tokenizer and the plain chat format, but no files.
Result<std::shared_ptr<const CheckpointSource>> make_scripted_source(const std::string& name);

/// Its tokenizer: token 17 reads " 17".
Result<std::shared_ptr<const text::Tokenizer>> make_scripted_tokenizer(std::string_view name);

} // namespace paceline::models
