#include "apps/terminal/race/columns.hpp"

#include "apps/console/validators.hpp"
#include "paceline/names.hpp"

#include <algorithm>
#include <boost/algorithm/string/split.hpp>
#include <fmt/format.h>
#include <optional>

namespace paceline::apps {
namespace {

constexpr const char* hint =
    "join a format such as bf16 or mxfp6, a mode such as sync, and draft, suffix, ngram, mtp or "
    "self:FORMAT, for example bf16,mxfp6,mxfp6+draft";

/// One column's words, by what they say.
struct Column {
  std::string name;
  std::string weights; ///< Empty: those of the options.
  std::optional<SpeculationMode> mode;
  std::string draft; ///< Empty: none was named.

  bool speculates() const { return mode ? *mode != SpeculationMode::off : !draft.empty(); }
};

bool is_format(const std::string& word) {
  return meaning(choices_of<WeightFormat>(), word) || meaning(choices_of<NumberFormat>(), word);
}

bool is_draft(const std::string& word) {
  return word == "draft" || word == "suffix" || word == "ngram" || word == "mtp" ||
         word.starts_with("self:");
}

Error wrong(const std::string& column, const std::string& what) {
  return {ErrorCode::invalid_argument, fmt::format("column '{}' {}", column, what), hint};
}

Result<Column> parse_column(const std::string& text) {
  Column column{text, {}, {}, {}};
  std::vector<std::string> words;
  boost::algorithm::split(words, text, [](char c) { return c == '+'; });
  for (const std::string& word : words) {
    // "auto" is the mode: a format that is left to the checkpoint need not be named.
    const auto mode = meaning(choices_of<SpeculationMode>(), word);
    std::string* const names = is_draft(word) ? &column.draft : &column.weights;
    if (!mode && !is_draft(word) && !is_format(word))
      return tl::unexpected(wrong(text, fmt::format("has '{}', which says nothing", word)));
    if (mode ? column.mode.has_value() : !names->empty())
      return tl::unexpected(wrong(text, fmt::format("has '{}' beside another of its kind", word)));
    if (mode)
      column.mode = mode;
    else
      *names = word;
  }
  if (!column.draft.empty() && column.mode == SpeculationMode::off)
    return tl::unexpected(wrong(text, "is off, and names a draft"));
  return column;
}

/// Returns the options with the column's weights; plain numbers are the model's dtype.
EngineOptions with_weights(EngineOptions engine, const std::string& weights) {
  if (const auto blocks = meaning(choices_of<WeightFormat>(), weights)) {
    engine.weights = blocks;
  } else if (const auto numbers = meaning(choices_of<NumberFormat>(), weights)) {
    engine.weights = engine.head_weights = std::nullopt;
    engine.dtype = *numbers;
  }
  return engine;
}

class Builder {
public:
  explicit Builder(const EngineOptions& engine) : base_(engine) {}

  Result<RaceField> field(const std::vector<Column>& columns) {
    for (const Column& column : columns)
      if (column.speculates() && drafters_of(column).empty())
        return tl::unexpected(wrong(column.name, "needs a draft: name a --draft-model"));
    for (const Column& column : columns) {
      const SpeculationMode mode = !column.speculates()
                                       ? SpeculationMode::off
                                       : column.mode.value_or(SpeculationMode::automatic);
      const int engine = engine_of(column.weights, drafters_beside(columns, column));
      field_.lanes.push_back({column.name, mode, engine, column.weights, {}, {}, {}});
    }
    return std::move(field_);
  }

private:
  std::vector<std::string> drafters_of(const Column& column) const {
    if (column.draft.empty() || column.draft == "draft")
      return base_.drafters;
    return {column.draft};
  }

  /// Returns what drafts on the column's engine: for one that decodes plainly, what drafts for
  /// another with its weights.
  std::vector<std::string> drafters_beside(const std::vector<Column>& columns,
                                           const Column& column) const {
    if (column.speculates())
      return drafters_of(column);
    const auto beside = std::ranges::find_if(columns, [&](const Column& other) {
      return other.speculates() && other.weights == column.weights;
    });
    return beside == columns.end() ? std::vector<std::string>{} : drafters_of(*beside);
  }

  int engine_of(const std::string& weights, const std::vector<std::string>& drafters) {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].first == weights && keys_[i].second == drafters)
        return int(i);
    keys_.emplace_back(weights, drafters);
    EngineOptions engine = with_weights(base_, weights);
    engine.drafters = drafters;
    field_.engines.push_back(std::move(engine));
    return int(keys_.size()) - 1;
  }

  const EngineOptions& base_;
  RaceField field_;
  std::vector<std::pair<std::string, std::vector<std::string>>> keys_;
};

} // namespace

RaceField all_modes(const EngineOptions& engine) {
  using enum SpeculationMode;
  return {{{"plain", off, 0, {}, {}, {}, {}},
           {"synchronous", sync, 0, {}, {}, {}, {}},
           {"overlapped", overlap, 0, {}, {}, {}, {}}},
          {engine}};
}

Result<RaceField> parse_columns(const std::vector<std::string>& columns,
                                const EngineOptions& engine) {
  std::vector<Column> parsed;
  for (const std::string& text : columns) {
    auto column = parse_column(text);
    if (!column)
      return tl::unexpected(column.error());
    if (std::ranges::find(parsed, text, &Column::name) != parsed.end())
      return tl::unexpected(wrong(text, "is there twice"));
    parsed.push_back(std::move(*column));
  }
  return Builder(engine).field(parsed);
}

} // namespace paceline::apps
