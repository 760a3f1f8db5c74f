#include "text/tool_format.hpp"

#include <algorithm>
#include <array>

namespace paceline::text {
namespace {

using Body = ToolFormat::Body;

constexpr ToolFormat tools[] = {
    {.name = "hermes", .opening = "<tool_call>", .closing = "</tool_call>"},
    {.name = "qwen3_coder", .body = Body::xml, .opening = "<tool_call>", .closing = "</tool_call>"},
    {.name = "llama3_json", .opening = "<|python_tag|>", .arguments = "parameters", .bare = true},
    {.name = "pythonic", .body = Body::python, .in_list = true, .bare = true},
    {.name = "mistral", .body = Body::named, .opening = "[TOOL_CALLS]"},
    {.name = "mistral_list", .body = Body::named, .opening = "[TOOL_CALLS]", .in_list = true},
    {.name = "granite", .opening = "<|tool_call|>", .in_list = true},
    {.name = "glm45", .body = Body::tags, .opening = "<tool_call>", .closing = "</tool_call>"},
    {.name = "gemma4", .body = Body::dict, .opening = "<|tool_call>", .closing = "<tool_call|>"},
    {.name = "openai", .body = Body::channel, .opening = "<|channel|>", .closing = "<|call|>"}};

constexpr ReasoningFormat reasonings[] = {
    {.name = "think", .opening = "<think>", .closing = "</think>"},
    {.name = "mistral", .opening = "[THINK]", .closing = "[/THINK]"},
    {.name = "gemma4", .opening = "<|channel>thought", .closing = "<channel|>"},
    {.name = "openai",
     .opening = "<|channel|>analysis<|message|>",
     .closing = "<|end|>",
     .channels = true}};

/// Texts of a template that are there together where it asks for a format.
struct Sign {
  std::string_view format;
  std::array<std::string_view, 3> texts;
};
/// The first sign that is there counts.
constexpr Sign signs[] = {{"glm45", {"<tool_call>", "<arg_key>"}},
                          {"qwen3_coder", {"<tool_call>", "<function=", "<parameter="}},
                          {"hermes", {"<tool_call>", "\"arguments"}},
                          {"mistral", {"[TOOL_CALLS]", "[ARGS]"}},
                          {"mistral_list", {"[TOOL_CALLS]"}},
                          {"granite", {"<|tool_call|>"}},
                          {"gemma4", {"<|tool_call>call:", "<tool_call|>"}},
                          {"openai", {"<|start|>assistant", "<|channel|>commentary", "functions."}},
                          {"llama3_json", {"<|start_header_id|>", "\"parameters\""}}};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <class Format>
const Format* named(std::span<const Format> all, std::string_view name) {
  const auto at = std::ranges::find(all, name, &Format::name);
  return at == all.end() ? nullptr : &*at;
}

} // namespace

std::span<const ToolFormat> tool_formats() {
  return tools;
}

std::span<const ReasoningFormat> reasoning_formats() {
  return reasonings;
}

const ToolFormat* tool_format(std::string_view name) {
  return named(tool_formats(), name);
}

const ReasoningFormat* reasoning_format(std::string_view name) {
  return named(reasoning_formats(), name);
}

const ToolFormat* tool_format_of(std::string_view chat_template) {
  const auto* sign = std::ranges::find_if(signs, [&](const Sign& one) {
    return std::ranges::all_of(one.texts, [&](auto text) { return has(chat_template, text); });
  });
  return sign == std::end(signs) ? nullptr : tool_format(sign->format);
}

const ReasoningFormat* reasoning_format_of(std::string_view chat_template) {
  const auto* format = std::ranges::find_if(reasonings, [&](const ReasoningFormat& one) {
    return has(chat_template, one.opening) && has(chat_template, one.closing);
  });
  return format == std::end(reasonings) ? nullptr : format;
}

bool shows_tools(std::string_view chat_template) {
  return has(chat_template, "tools");
}

} // namespace paceline::text
