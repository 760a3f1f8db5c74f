#include "apps/terminal/chat/chat_tools.hpp"

#include "apps/console/chat/answer_plan.hpp"
#include "apps/console/input.hpp"
#include "apps/console/limits.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <utility>

namespace paceline::apps {
namespace json = boost::json;
namespace {

tl::unexpected<Error> no_list(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message),
              R"(give a list such as [{"type": "function", "function": {"name": "f"}}])");
}

} // namespace

Result<ChatTools> read_chat_tools(const std::string& file) {
  const auto text = read_text({{}, file});
  if (!text)
    return tl::unexpected(text.error());
  json::error_code failed;
  json::parse_options options;
  options.max_depth = std::size_t(limits::json_depth_max);
  const json::value list = json::parse(*text, failed, {}, options);
  if (failed)
    return no_list(fmt::format("{} is not valid JSON ({})", file, failed.message()));
  auto functions = read_tool_list(list, ToolShape::either, file);
  if (!functions)
    return no_list(std::move(functions.error().message));
  ChatTools tools;
  tools.functions.functions = std::move(*functions);
  tools.listed = json::serialize(nested_tools(list));
  return tools;
}

Result<void> check_chat_tools(const ChatTools& tools, const ChatStyle& style,
                              const Request& request) {
  if (!tools.functions.callable())
    return {};
  if (const auto why = why_no_tools(style); !why.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("--tools is not supported by this model: {}", why),
                style.shows_tools ? "--tool-call-parser may say it"
                                  : "name a model whose template has tools, or a --chat-template");
  if (request.constraint && !has_form_beside_calls(style, *request.constraint))
    return fail(ErrorCode::unsupported,
                "this model's answers cannot have a form beside calls of functions",
                "leave out --tools, or the option for the form");
  return {};
}

} // namespace paceline::apps
