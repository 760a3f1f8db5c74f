// The requests of a load: prompts, lengths and times.
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

/// A text, or ids that are taken as they are.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// One request.
struct Item {
  double arrival = 0; ///< Seconds from the start.
  Prompt prompt;
  int max_tokens = 0;
};

/// Lengths of a request, in tokens.
struct Lengths {
  int prompt = 0;
  int output = 0;
};

/// Draws each length evenly from the range of `mean` minus and plus the share `range_ratio` of it,
/// at least 1.
std::vector<Lengths> draw_lengths(std::size_t count, Lengths mean, double range_ratio,
                                  std::uint64_t seed);

/// A line of a trace of real requests.
struct TraceLine {
  double arrival = 0; ///< Seconds from the first one.
  Lengths lengths;
};
/// Reads a CSV file: arrival in seconds, prompt tokens, output tokens; more columns are ignored.
/// The first line may name them. The arrivals must grow.
Result<std::vector<TraceLine>> read_trace(const std::string& path);

/// A prompt that somebody wrote.
struct WrittenPrompt {
  Prompt prompt;
  std::optional<int> max_tokens;
};
/// Reads a JSONL file with {"prompt": text or [ids], "max_tokens": N} in each line; the latter may
/// be missing.
Result<std::vector<WrittenPrompt>> read_prompts(const std::string& path);

/// A text that prompts of any length are cut from. The first few tokens of a prompt are drawn one
/// by one, so that no two begin alike and share pages of a prefix cache.
class PromptPool {
public:
  /// ids: a text of the model's kind; not empty.
  explicit PromptPool(std::vector<TokenId> ids) : ids_(std::move(ids)) {}
  /// Makes a pool of words, each of which counts as a token, for targets whose ids are not known.
  explicit PromptPool(const std::string& text);

  Prompt cut(int tokens, std::mt19937_64& random) const;

private:
  std::vector<TokenId> ids_;       // One of the two is empty.
  std::vector<std::string> words_; ///< Words with the blanks before them.
};

/// Draws prompts of these lengths.
std::vector<Prompt> draw_prompts(const PromptPool& pool, const std::vector<Lengths>& lengths,
                                 std::uint64_t seed);

} // namespace paceline::apps::load
