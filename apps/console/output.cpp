#include "apps/console/output.hpp"

#include "apps/console/command.hpp"
#include "apps/console/json_text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::apps {

namespace {

boost::json::array stages_json(const ModelInfo& model) {
  boost::json::array stages;
  for (const StageInfo& stage : model.stages) {
    boost::json::object object{{"device", stage.device},
                               {"kernel", stage.kernel},
                               {"layers", stage.layers},
                               {"weight_bytes", stage.weight_bytes}};
    if (!stage.crossing_rows.empty())
      object["crossing_rows"] = stage.crossing_rows;
    stages.push_back(std::move(object));
  }
  return stages;
}

} // namespace

boost::json::object model_json(const ModelInfo& model) {
  boost::json::object object{{"name", model.name},
                             {"architecture", model.architecture},
                             {"parameters", model.parameters},
                             {"weight_bytes", model.weight_bytes},
                             {"dtype", model.dtype},
                             {"weights", model.weights},
                             {"head_weights", model.head_weights},
                             {"device", model.device},
                             {"kernel", model.kernel},
                             {"prefill", model.prefill == Prefill::fast ? "fast" : "invariant"},
                             {"vocabulary", model.vocabulary},
                             {"max_model_len", model.max_model_len}};
  if (!model.activations.empty())
    object["activations"] = model.activations;
  if (!model.kv_cache_dtype.empty())
    object["kv_cache_dtype"] = model.kv_cache_dtype;
  if (model.shared_bytes > 0)
    object["shared_bytes"] = model.shared_bytes;
  if (model.shards > 1)
    object["shards"] = model.shards;
  if (!model.stages.empty())
    object["stages"] = stages_json(model);
  return object;
}

std::string formats_text(const ModelInfo& model) {
  std::string text = model.weights;
  if (model.head_weights != model.dtype)
    text += ", head " + model.head_weights;
  if (text != model.dtype)
    text += ", rest " + model.dtype;
  if (!model.activations.empty())
    text += ", " + model.activations + " activations";
  return model.kv_cache_dtype.empty() ? text : text + ", " + model.kv_cache_dtype + " cache";
}

boost::json::array drafters_json(const std::vector<DrafterCounts>& drafters) {
  boost::json::array list;
  for (const DrafterCounts& of : drafters)
    list.push_back({{"draft", of.name},
                    {"judged", of.judged},
                    {"accepted", of.accepted},
                    {"acceptance_rate", of.acceptance_rate()}});
  return list;
}

boost::json::object speculation_json(const SpeculationStats& stats, int completion_tokens) {
  return {{"mode", to_string(stats.mode)},
          {"verify", to_string(stats.verify)},
          {"window", stats.window},
          {"drafted", stats.drafted},
          {"forked", stats.forked},
          {"judged", stats.judged},
          {"accepted", stats.accepted},
          {"discarded", stats.discarded()},
          {"acceptance_rate", stats.acceptance_rate()},
          {"rounds", stats.rounds},
          {"tokens_per_round", tokens_per_round(stats, completion_tokens)},
          {"lookahead_rounds", stats.lookahead_rounds},
          {"fork_hits", stats.fork_hits},
          {"tree_tokens", stats.tree_tokens},
          {"lookahead_hit_rate", stats.lookahead_hit_rate()},
          {"overlap_ratio", stats.overlap_ratio},
          {"windows_cut", stats.windows_cut},
          {"draft_context_exceeded", stats.draft_context_exceeded},
          {"draft_disabled", stats.draft_disabled},
          {"drafter_failures", stats.drafter_failures},
          {"drafters", drafters_json(stats.drafters)}};
}

boost::json::object usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"cached_tokens", usage.cached_tokens}};
}

boost::json::array ids_json(std::span<const TokenId> ids) {
  boost::json::array list(ids.begin(), ids.end());
  return list;
}

Result<int> print_json(const boost::json::object& object) {
  return print_text(json_text(object) + "\n");
}

Result<int> print_text(std::string_view text) {
  Output out;
  out.write(text);
  return out.finish().map([] { return status_ok; });
}

double tokens_per_round(const SpeculationStats& stats, int completion_tokens) {
  return stats.rounds > 0 ? completion_tokens / double(stats.rounds) : 0;
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string speed_text(std::uint64_t tokens, double rate) {
  constexpr double whole = 100; // Rates from here on are printed without a decimal.
  return counted(tokens, "token") + (rate <= 0      ? std::string()
                                     : rate < whole ? fmt::format(", {:.1f} tokens/s", rate)
                                                    : fmt::format(", {:.0f} tokens/s", rate));
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

Table::Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}

void Table::add(std::vector<std::string> row) {
  row.resize(rows_.front().size());
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows_) {
    text += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i)
      text += fmt::format("  {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  return text;
}

} // namespace paceline::apps
