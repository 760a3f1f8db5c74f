// The numbers of an engine's options, with their names, bounds and effects, for the library, the
// command line, its files of options, and docs/limits.md; a test goes through the table.
#pragma once

#include "actors/limits.hpp"
#include "base/number_field.hpp"
#include "gpu/limits.hpp"
#include "models/limits.hpp"
#include "paceline/engine.hpp"
#include "sampling/limits.hpp"
#include "speculation/limits.hpp"

#include <string_view>

namespace paceline::actors {

template <auto Member>
constexpr auto engine_field = base::number_field<EngineOptions, Member>;

inline constexpr base::NumberField<EngineOptions> engine_numbers[] = {
    engine_field<&EngineOptions::threads>("EngineOptions::threads", "-t,--threads",
                                          "Threads of the target; 0: the physical cores", 0,
                                          gpu::limits::lane_threads_max),
    engine_field<&EngineOptions::max_num_seqs>("EngineOptions::max_num_seqs", "--max-num-seqs",
                                               "Sequences decoded in one batch", 1,
                                               limits::max_num_seqs_max),
    engine_field<&EngineOptions::max_waiting>(
        "EngineOptions::max_waiting", "--max-waiting",
        "Answers that may wait for a place in the batch; more are told 429", 0,
        limits::max_waiting_max),
    engine_field<&EngineOptions::page_tokens>("EngineOptions::page_tokens", "",
                                              "Tokens of a page of the KV cache", 1,
                                              limits::page_tokens_max),
    engine_field<&EngineOptions::prefill_chunk>("EngineOptions::prefill_chunk", "--prefill-chunk",
                                                "Prompt tokens that one step reads", 1,
                                                limits::prefill_chunk_max),
    engine_field<&EngineOptions::row_budget>(
        "EngineOptions::row_budget", "--row-budget",
        "Rows of a step that has streams and prompts; auto: by what steps cost", 0,
        limits::prefill_chunk_max),
    engine_field<&EngineOptions::window>(
        "EngineOptions::window", "--window,--num-speculative-tokens", "Tokens drafted at a time", 1,
        sampling::limits::window_max),
    engine_field<&EngineOptions::fork_rows>(
        "EngineOptions::fork_rows", "--fork-rows",
        "Forks that a pass of the draft may advance for a request; 0: none", 0,
        speculation::limits::fork_rows_max),
    engine_field<&EngineOptions::tree_rows>("EngineOptions::tree_rows", "--tree-rows",
                                            "Rows of a target step beside each window, for other "
                                            "tokens than the drafted ones; default: as many as pay",
                                            0, speculation::limits::tree_rows_max),
    engine_field<&EngineOptions::draft_top_k>(
        "EngineOptions::draft_top_k", "--draft-top-k",
        "Likeliest tokens that a node draws from where its distribution crosses; 0: all", 0,
        models::limits::context_max),
};

/// Returns the number of that name, which must exist.
constexpr const base::NumberField<EngineOptions>& engine_number(std::string_view name) {
  return base::field_of(engine_numbers, name);
}

} // namespace paceline::actors
