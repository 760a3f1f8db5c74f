// What is asked for: prompts, lengths, and when.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace paceline::apps::load {

/// Text, or ids that are taken as they are.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// One request.
struct Item {
  double arrival = 0; ///< Seconds from the start.
  Prompt prompt;
  int max_tokens = 0;
};

/// Of a request, in tokens.
struct Lengths {
  int prompt = 0;
  int output = 0;
};

/// Each drawn evenly from `mean` less and more `range_ratio` of it, at least 1.
std::vector<Lengths> draw_lengths(std::size_t count, Lengths mean, double range_ratio,
                                  std::uint64_t seed);

/// A line of a trace of real requests.
struct TraceLine {
  double arrival = 0; ///< Seconds from the first one.
  Lengths lengths;
};
/// A CSV file: arrival in seconds, prompt tokens, output tokens; more columns do not count. The
/// first line may name them. Lines by growing arrival.
Result<std::vector<TraceLine>> read_trace(const std::string& path);

/// A prompt somebody wrote.
struct WrittenPrompt {
  Prompt prompt;
  std::optional<int> max_tokens;
};
/// A JSONL file: {"prompt": text or [ids], "max_tokens": N} a line; the latter may be missing.
Result<std::vector<WrittenPrompt>> read_prompts(const std::string& path);

/// What prompts of any length are cut from. Their first few tokens are drawn one by one, so that no
/// two begin alike and find each other's in a prefix cache.
class PromptPool {
public:
  /// ids: of a text of the model's kind; not empty.
  explicit PromptPool(std::vector<TokenId> ids) : ids_(std::move(ids)) {}
  /// Where nobody can tell ids: words, of which each counts as a token.
  explicit PromptPool(const std::string& text);

  Prompt cut(int tokens, std::mt19937_64& random) const;

private:
  std::vector<TokenId> ids_;       // one of the two
  std::vector<std::string> words_; ///< With the blanks before them.
};

/// Prompts of the lengths that are asked for.
std::vector<Prompt> draw_prompts(const PromptPool& pool, const std::vector<Lengths>& lengths,
                                 std::uint64_t seed);

} // namespace paceline::apps::load
