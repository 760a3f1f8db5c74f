// Renders templates that it is told, one JSON object a line of standard input: {"template": text,
// "variables": {name: value}}. Answers each by a line: {"text": text}, or {"error": text,
// "unsupported": whether only we refuse it}. tools/reference/jinja_check.py compares these with
// Jinja's.
#include "text/chat_template.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <iostream>
#include <string>

namespace {

namespace json = boost::json;

/// Saturday, March 7, 2026, 09:05:02.
std::tm now() {
  std::tm out{};
  out.tm_year = 126;
  out.tm_mon = 2;
  out.tm_mday = 7;
  out.tm_hour = 9;
  out.tm_min = 5;
  out.tm_sec = 2;
  out.tm_wday = 6;
  out.tm_yday = 65;
  return out;
}

paceline::Result<std::string> rendered(const json::object& asked) {
  paceline::TemplateVariables variables;
  for (const auto& [name, value] : asked.at("variables").as_object())
    variables.emplace_back(std::string(name), json::serialize(value));
  const auto read = paceline::text::ChatTemplate::parse("t", asked.at("template").as_string());
  if (!read)
    return tl::unexpected(read.error());
  return read->render({}, false, now(), variables);
}

} // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto text = rendered(json::parse(line).as_object());
    json::object answer;
    if (text)
      answer["text"] = *text;
    else
      answer = {{"error", text.error().message},
                {"unsupported", text.error().code == paceline::ErrorCode::unsupported}};
    std::cout << json::serialize(answer) << std::endl;
  }
}
