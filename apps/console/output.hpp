// The output of commands: JSON objects with docs/program.md's keys, and tables for people.
#pragma once

#include "apps/console/terminal.hpp"
#include "base/file.hpp"
#include "paceline/engine.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

boost::json::object model_json(const ModelInfo& model);
/// Returns the formats of a model's weights, for people: "bf16", "mxfp6, rest bf16".
std::string formats_text(const ModelInfo& model);
boost::json::object speculation_json(const SpeculationStats& stats, int completion_tokens);
boost::json::object usage_json(const Usage& usage);
boost::json::array ids_json(std::span<const TokenId> ids);

/// Prints `object` on a line of its own, and returns the exit status.
Result<int> print_json(const boost::json::object& object);
/// Prints `text`, and returns the exit status.
Result<int> print_text(std::string_view text);
/// Writes what `text` returns to a file; an empty path: nobody wants it.
template <class Text>
Result<void> write_if_named(const std::string& path, const Text& text) {
  return path.empty() ? Result<void>() : base::write_text_file(path, text());
}

/// Returns the tokens per round, the verdict's own among them; 0 before the first round.
double tokens_per_round(const SpeculationStats& stats, int completion_tokens);

/// Returns "1 token", "2 tokens" and the like.
std::string counted(std::uint64_t count, std::string_view what);
/// Returns "48 tokens, 312 tokens/s". rate: 0: there is none to report, as with a single token.
std::string speed_text(std::uint64_t tokens, double rate);

/// Returns "2.00 GiB", "512 B" and the like.
std::string human_bytes(std::uint64_t bytes);

/// A table of columns under headings: the first column flush left, the others flush right.
class Table {
public:
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> row);
  /// Returns the lines, each of which ends with a newline.
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows_;
};

} // namespace paceline::apps
