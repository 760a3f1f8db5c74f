// A model whose distributions are a known function of the last few tokens: the oracle of the
// statistical tests, and the model of runs that only measure the runtime.
#pragma once

#include "models/checkpoint/source.hpp"
#include "models/model.hpp"
#include "models/synthetic/scripted_options.hpp"
#include "text/tokenizer.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace paceline::models {

struct LoadOptions;

/// Makes a model that keeps its context in its cache pages (one id per slot), so that a wrong or
/// stale page shows as wrong output, and so does a state that was advanced by a token which was
/// taken back. It runs on devices whose memory the host can read (cpu, sim).
Result<std::shared_ptr<const Model>> make_scripted(const ScriptedOptions& options,
                                                   std::shared_ptr<gpu::Device> device);

/// Makes the model in stages of a layer each, one for each device. Each stage keeps the context in
/// its own pages and hands on what it found there, so that a wrong or stale page of any of them
/// shows, and so do confused rows. As with transformers (load_transformer), stages of devices
/// elsewhere are StageElsewhere, and if the last device is elsewhere, the head is one stage more.
Result<std::vector<std::shared_ptr<const Model>>>
make_scripted_stages(const ScriptedOptions& options,
                     std::span<const std::shared_ptr<gpu::Device>> devices);

/// Makes some of `all` layers, in fact one, for a machine without the others (LoadOptions::only).
Result<std::shared_ptr<const Model>> make_scripted_stage(const ScriptedOptions& options,
                                                         const LayerRange& layers, int all,
                                                         std::shared_ptr<gpu::Device> device);

/// Makes the model that "scripted:..." names, in stages like make_scripted_stages. Errors: options
/// that only a model with weights or layers can follow.
Result<std::vector<std::shared_ptr<const Model>>>
load_scripted(const std::string& name, std::span<const std::shared_ptr<gpu::Device>> devices,
              const LoadOptions& options);

/// Makes its source, which has a tokenizer and the plain chat format, but no files.
Result<std::shared_ptr<const CheckpointSource>> make_scripted_source(const std::string& name);

/// Makes its tokenizer: token 17 reads " 17".
Result<std::shared_ptr<const text::Tokenizer>> make_scripted_tokenizer(std::string_view name);

} // namespace paceline::models
