// Workloads in files: traces as CSV, prompts as JSONL.
#include "apps/console/input.hpp"
#include "apps/laboratory/load/workload.hpp"
#include "base/parse_number.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <string_view>

namespace paceline::apps::load {
namespace {

/// Reads a file by lines. take: called with each line that is not empty, and its number from 1;
/// false ends the reading.
template <class Take>
void each_line(std::string_view text, const Take& take) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (!line.empty() && !take(line, number))
      return;
  }
}

/// Removes the number before the next comma, and the comma, and returns the number.
template <class Number>
std::optional<Number> take_field(std::string_view& line) {
  std::string_view field = line.substr(0, line.find(','));
  line.remove_prefix(std::min(field.size() + 1, line.size()));
  while (field.starts_with(' '))
    field.remove_prefix(1);
  while (field.ends_with(' '))
    field.remove_suffix(1);
  return base::parse_number<Number>(field);
}

std::optional<TraceLine> parse_trace_line(std::string_view line) {
  const auto arrival = take_field<double>(line);
  const auto prompt = take_field<int>(line);
  const auto output = take_field<int>(line);
  if (!arrival || !prompt || !output || !(*arrival >= 0 && std::isfinite(*arrival)) ||
      *prompt < 1 || *output < 1)
    return std::nullopt;
  return TraceLine{*arrival, {*prompt, *output}};
}

std::optional<Prompt> parse_prompt(const boost::json::value& value) {
  if (value.is_string())
    return boost::json::value_to<std::string>(value);
  auto ids = boost::json::try_value_to<std::vector<TokenId>>(value);
  if (ids.has_error() || ids->empty())
    return std::nullopt;
  return std::move(*ids);
}

std::optional<WrittenPrompt> parse_prompt_line(std::string_view line) {
  boost::system::error_code wrong;
  const auto value = boost::json::parse({line.data(), line.size()}, wrong);
  const auto* object = wrong ? nullptr : value.if_object();
  const auto* prompt = object ? object->if_contains("prompt") : nullptr;
  if (!prompt)
    return std::nullopt;
  auto parsed = parse_prompt(*prompt);
  if (!parsed)
    return std::nullopt;
  WrittenPrompt written{std::move(*parsed), {}};
  if (const auto* most = object->if_contains("max_tokens")) {
    const int number = most->to_number<int>(wrong);
    if (wrong || number < 1)
      return std::nullopt;
    written.max_tokens = number;
  }
  return written;
}

tl::unexpected<Error> bad_line(const std::string& path, int number, const char* wanted) {
  return fail(ErrorCode::corrupt, fmt::format("line {} of {} cannot be read", number, path),
              fmt::format("write {}", wanted));
}

} // namespace

Result<std::vector<TraceLine>> read_trace(const std::string& path) {
  const auto text = read_text({{}, path});
  if (!text)
    return tl::unexpected(text.error());
  std::vector<TraceLine> lines;
  int wrong = 0;
  each_line(*text, [&](std::string_view line, int number) {
    const auto parsed = parse_trace_line(line);
    if (parsed && (lines.empty() || parsed->arrival >= lines.back().arrival))
      lines.push_back(*parsed);
    else if (number > 1) // The first line may name the columns.
      wrong = number;
    return wrong == 0;
  });
  if (wrong > 0 || lines.empty())
    return bad_line(path, std::max(wrong, 1),
                    "arrival in seconds, prompt tokens, output tokens; by growing arrival");
  const double first = lines.front().arrival;
  for (TraceLine& line : lines)
    line.arrival -= first;
  return lines;
}

Result<std::vector<WrittenPrompt>> read_prompts(const std::string& path) {
  const auto text = read_text({{}, path});
  if (!text)
    return tl::unexpected(text.error());
  std::vector<WrittenPrompt> prompts;
  int wrong = 0;
  each_line(*text, [&](std::string_view line, int number) {
    if (auto parsed = parse_prompt_line(line))
      prompts.push_back(std::move(*parsed));
    else
      wrong = number;
    return wrong == 0;
  });
  if (wrong > 0 || prompts.empty())
    return bad_line(path, std::max(wrong, 1), R"({"prompt": "text", "max_tokens": 64})");
  return prompts;
}

} // namespace paceline::apps::load
