// Results, which have all that the headers' structs have.
#include "python/src/results.hpp"

#include "python/src/fields.hpp"
#include "python/src/parts.hpp"

#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace paceline::python {
namespace {

/// Adds "Name(one=1, two='x')" as what repr() gives, of the attributes with these names.
template <class Owner>
void represent(nb::class_<Owner>& type, const char* name, std::vector<const char*> attributes) {
  type.def("__repr__", [name, attributes = std::move(attributes)](nb::handle self) {
    std::string text = std::string(name) + '(';
    for (const char* attribute : attributes)
      text += std::string(attribute == attributes.front() ? "" : ", ") + attribute + '=' +
              nb::repr(self.attr(attribute)).c_str();
    return text + ')';
  });
}

void add_logprobs(nb::module_& module) {
  nb::class_<TokenLogprob> one(module, "TokenLogprob");
  shown<&TokenLogprob::token>(one, "token");
  shown<&TokenLogprob::logprob>(one, "logprob");
  shown<&TokenLogprob::top>(one, "top");
  represent(one, "TokenLogprob", {"token", "logprob", "top"});

  nb::class_<PromptLogprobs> prompt(module, "PromptLogprobs");
  shown<&PromptLogprobs::tokens>(prompt, "tokens");
  shown<&PromptLogprobs::logprobs>(prompt, "logprobs");
  represent(prompt, "PromptLogprobs", {"tokens"});

  nb::class_<Delta> delta(module, "Delta");
  shown<&Delta::text>(delta, "text");
  shown<&Delta::tokens>(delta, "tokens");
  shown<&Delta::sources>(delta, "sources");
  shown<&Delta::logprobs>(delta, "logprobs");
  represent(delta, "Delta", {"text", "tokens", "sources"});
}

void add_speculation(nb::module_& module) {
  nb::class_<DrafterCounts> counts(module, "DrafterCounts");
  shown<&DrafterCounts::name>(counts, "name");
  shown<&DrafterCounts::judged>(counts, "judged");
  shown<&DrafterCounts::accepted>(counts, "accepted");
  counts.def_prop_ro("acceptance_rate", &DrafterCounts::acceptance_rate);
  represent(counts, "DrafterCounts", {"name", "judged", "accepted"});

  using Stats = SpeculationStats;
  nb::class_<Stats> type(module, "SpeculationStats");
  shown<&Stats::mode>(type, "mode");
  shown<&Stats::verify>(type, "verify");
  shown<&Stats::window>(type, "window");
  shown<&Stats::drafted>(type, "drafted");
  shown<&Stats::forked>(type, "forked");
  shown<&Stats::judged>(type, "judged");
  shown<&Stats::accepted>(type, "accepted");
  shown<&Stats::rounds>(type, "rounds");
  shown<&Stats::lookahead_hits>(type, "lookahead_hits");
  shown<&Stats::fork_hits>(type, "fork_hits");
  shown<&Stats::lookahead_rounds>(type, "lookahead_rounds");
  shown<&Stats::tree_tokens>(type, "tree_tokens");
  shown<&Stats::overlap_ratio>(type, "overlap_ratio");
  shown<&Stats::draft_context_exceeded>(type, "draft_context_exceeded");
  shown<&Stats::draft_disabled>(type, "draft_disabled");
  shown<&Stats::windows_cut>(type, "windows_cut");
  shown<&Stats::drafter_failures>(type, "drafter_failures");
  shown<&Stats::drafters>(type, "drafters");
  type.def_prop_ro("discarded", &Stats::discarded);
  type.def_prop_ro("acceptance_rate", &Stats::acceptance_rate);
  type.def_prop_ro("lookahead_hit_rate", &Stats::lookahead_hit_rate);
  represent(
      type, "SpeculationStats",
      {"mode", "verify", "window", "drafted", "judged", "accepted", "rounds", "acceptance_rate"});
}

void add_end(nb::module_& module) {
  nb::class_<Usage> usage(module, "Usage");
  shown<&Usage::prompt_tokens>(usage, "prompt_tokens");
  shown<&Usage::completion_tokens>(usage, "completion_tokens");
  shown<&Usage::cached_tokens>(usage, "cached_tokens");
  represent(usage, "Usage", {"prompt_tokens", "completion_tokens", "cached_tokens"});

  nb::class_<Timing> timing(module, "Timing");
  shown<&Timing::queue_seconds>(timing, "queue_seconds");
  shown<&Timing::time_to_first_token_seconds>(timing, "time_to_first_token_seconds");
  shown<&Timing::decode_seconds>(timing, "decode_seconds");
  shown<&Timing::total_seconds>(timing, "total_seconds");
  represent(timing, "Timing",
            {"queue_seconds", "time_to_first_token_seconds", "decode_seconds", "total_seconds"});
}

/// The members of Finished are the completion's own, its error apart, which is raised.
template <auto Member>
void of_end(nb::class_<Answer>& type, const char* name) {
  using Value = std::remove_cvref_t<decltype(std::declval<Finished&>().*Member)>;
  type.def_prop_ro(name, [](const Answer& answer) -> Value { return answer.end.*Member; });
}

void add_completion(nb::module_& module) {
  nb::class_<Answer> type(module, "Completion");
  shown<&Answer::text>(type, "text");
  shown<&Answer::tokens>(type, "tokens");
  shown<&Answer::logprobs>(type, "logprobs");
  shown<&Answer::prompt>(type, "prompt_logprobs");
  type.def_prop_ro("finish_reason", [](const Answer& answer) { // None while it goes on
    return answer.ended ? std::optional(answer.end.reason) : std::nullopt;
  });
  of_end<&Finished::stop_match>(type, "stop_match");
  of_end<&Finished::stop_token>(type, "stop_token");
  of_end<&Finished::seed>(type, "seed");
  of_end<&Finished::usage>(type, "usage");
  of_end<&Finished::speculation>(type, "speculation");
  of_end<&Finished::timing>(type, "timing");
  of_end<&Finished::reproducible>(type, "reproducible");
  represent(type, "Completion", {"text", "finish_reason", "usage", "speculation"});
}

void add_model(nb::module_& module) {
  nb::class_<StageInfo> stage(module, "StageInfo");
  shown<&StageInfo::device>(stage, "device");
  shown<&StageInfo::kernel>(stage, "kernel");
  shown<&StageInfo::layers>(stage, "layers");
  shown<&StageInfo::weight_bytes>(stage, "weight_bytes");
  shown<&StageInfo::crossing_rows>(stage, "crossing_rows");

  nb::class_<ModelInfo> type(module, "ModelInfo");
  shown<&ModelInfo::name>(type, "name");
  shown<&ModelInfo::architecture>(type, "architecture");
  shown<&ModelInfo::parameters>(type, "parameters");
  shown<&ModelInfo::weight_bytes>(type, "weight_bytes");
  shown<&ModelInfo::shared_bytes>(type, "shared_bytes");
  shown<&ModelInfo::dtype>(type, "dtype");
  shown<&ModelInfo::weights>(type, "weights");
  shown<&ModelInfo::head_weights>(type, "head_weights");
  shown<&ModelInfo::activations>(type, "activations");
  shown<&ModelInfo::kv_cache_dtype>(type, "kv_cache_dtype");
  shown<&ModelInfo::device>(type, "device");
  shown<&ModelInfo::kernel>(type, "kernel");
  shown<&ModelInfo::stages>(type, "stages");
  shown<&ModelInfo::crossing_rows>(type, "crossing_rows");
  shown<&ModelInfo::shards>(type, "shards");
  shown<&ModelInfo::layers>(type, "layers");
  shown<&ModelInfo::prefill>(type, "prefill");
  shown<&ModelInfo::vocabulary>(type, "vocabulary");
  shown<&ModelInfo::max_model_len>(type, "max_model_len");
  shown<&ModelInfo::not_obeyed>(type, "not_obeyed");
  represent(type, "ModelInfo", {"name", "architecture", "parameters", "device", "kernel"});
}

void add_metrics_of_speculation(nb::class_<Metrics>& type) {
  shown<&Metrics::drafted>(type, "drafted");
  shown<&Metrics::forked>(type, "forked");
  shown<&Metrics::passes_behind>(type, "passes_behind");
  shown<&Metrics::judged>(type, "judged");
  shown<&Metrics::accepted>(type, "accepted");
  shown<&Metrics::drafters>(type, "drafters");
  shown<&Metrics::accepted_by_position>(type, "accepted_by_position");
  shown<&Metrics::windows>(type, "windows");
  shown<&Metrics::window_tokens>(type, "window_tokens");
  shown<&Metrics::rounds>(type, "rounds");
  shown<&Metrics::lookahead_hits>(type, "lookahead_hits");
  shown<&Metrics::fork_hits>(type, "fork_hits");
  shown<&Metrics::tree_rows>(type, "tree_rows");
  shown<&Metrics::tree_tokens>(type, "tree_tokens");
  shown<&Metrics::lookahead_rounds>(type, "lookahead_rounds");
  shown<&Metrics::pre_enqueued_steps>(type, "pre_enqueued_steps");
  shown<&Metrics::fork_steps>(type, "fork_steps");
  shown<&Metrics::draft_late>(type, "draft_late");
  shown<&Metrics::draft_pauses>(type, "draft_pauses");
  shown<&Metrics::draft_disabled>(type, "draft_disabled");
  shown<&Metrics::drafter_failures>(type, "drafter_failures");
}

void add_metrics(nb::module_& module) {
  nb::class_<Metrics> type(module, "Metrics");
  shown<&Metrics::running>(type, "running");
  shown<&Metrics::waiting>(type, "waiting");
  shown<&Metrics::full_length_requests>(type, "full_length_requests");
  shown<&Metrics::finished>(type, "finished");
  shown<&Metrics::prompt_tokens>(type, "prompt_tokens");
  shown<&Metrics::generated_tokens>(type, "generated_tokens");
  add_metrics_of_speculation(type);
  shown<&Metrics::preemptions>(type, "preemptions");
  shown<&Metrics::restarts>(type, "restarts");
  shown<&Metrics::recomputations>(type, "recomputations");
  shown<&Metrics::stalls>(type, "stalls");
  shown<&Metrics::callback_failures>(type, "callback_failures");
  shown<&Metrics::target_moved>(type, "target_moved");
  shown<&Metrics::step_cost_error>(type, "step_cost_error");
  shown<&Metrics::messages>(type, "messages");
  shown<&Metrics::target_busy_seconds>(type, "target_busy_seconds");
  shown<&Metrics::draft_busy_seconds>(type, "draft_busy_seconds");
  shown<&Metrics::overlapped_seconds>(type, "overlapped_seconds");
  shown<&Metrics::decode_round_seconds>(type, "decode_round_seconds");
  shown<&Metrics::decode_lane_seconds>(type, "decode_lane_seconds");
  shown<&Metrics::kv_pages_total>(type, "kv_pages_total");
  shown<&Metrics::kv_pages_used>(type, "kv_pages_used");
  shown<&Metrics::kv_pages_quarantined>(type, "kv_pages_quarantined");
}

} // namespace

std::optional<Delta> Answer::take(Event event) {
  if (auto* delta = std::get_if<Delta>(&event)) {
    add(*delta);
    return std::move(*delta);
  }
  if (auto* of_prompt = std::get_if<PromptLogprobs>(&event)) {
    prompt = std::move(*of_prompt);
  } else {
    end = std::move(std::get<Finished>(event));
    ended = true;
  }
  return std::nullopt;
}

void add_results(nb::module_& module) {
  add_logprobs(module);
  add_speculation(module);
  add_end(module);
  add_completion(module);
  add_model(module);
  add_metrics(module);
}

} // namespace paceline::python
