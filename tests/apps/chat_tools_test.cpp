// A chat whose model may call functions: what is read, shown, kept and typed.
#include "apps/console/chat/answer_reader.hpp"
#include "apps/terminal/chat/answer_parts.hpp"
#include "apps/terminal/chat/chat_tools.hpp"
#include "apps/terminal/chat/conversation.hpp"
#include "apps/terminal/chat/typing.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <deque>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::apps;
using paceline::testing::TemporaryFolder;
namespace json = boost::json;

namespace {

/// An answer's parts as they are shown: "<shade>text", where there is a shade.
class Answer {
public:
  explicit Answer(bool shades)
      : parts_(AnswerReader({.tools = text::tool_format("hermes"),
                             .functions = {{.name = "paint"}, {.name = "rest"}},
                             .reasoning = text::reasoning_format("think")},
                            "seed", false),
               text::reasoning_format("think"), shades) {}

  std::string shown(std::string_view text, Shade shade = {}) {
    std::string all;
    for (const char c : text) // It comes in the smallest pieces.
      add(parts_.read(std::string_view(&c, 1), shade), all);
    add(parts_.finish(), all);
    return all;
  }
  const AnswerParts& parts() const { return parts_; }

private:
  void add(const std::vector<AnswerParts::Shown>& some, std::string& to) {
    for (const AnswerParts::Shown& one : some) {
      if (one.shade != before_)
        to += "<" + std::string(one.shade.code) + ">";
      before_ = one.shade;
      to += one.text;
    }
  }

  AnswerParts parts_;
  Shade before_;
};

constexpr const char* calls =
    "<think>\nHm.\n</think>\n\nI paint.\n<tool_call>\n{\"name\": \"paint\", "
    "\"arguments\": {\"color\": \"red\"}}\n</tool_call>\n<tool_call>\n"
    "{\"name\": \"rest\", \"arguments\": {}}\n</tool_call>";

/// Lines that a test types.
class Lines final : public LineSource {
public:
  explicit Lines(std::deque<Typed> lines, std::vector<std::string>* prompts = nullptr)
      : lines_(std::move(lines)), prompts_(prompts) {}
  Typed next(const std::string& prompt) override {
    if (prompts_)
      prompts_->push_back(prompt);
    if (lines_.empty())
      return {};
    Typed line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

private:
  std::deque<Typed> lines_;
  std::vector<std::string>* prompts_;
};

Typed line(std::string text) {
  return {Typed::Kind::line, std::move(text)};
}

} // namespace

TEST_CASE("a call is shown on a line of its own, and reasoning between its marks or dim") {
  CHECK(Answer(false).shown(calls) == "<think>\nHm.\n</think>\nI paint.\n"
                                      "\u2192 paint {\"color\": \"red\"}\n\u2192 rest {}");
  CHECK(Answer(true).shown(calls) ==
        "<2>Hm.<>\n\nI paint.\n<1;33>\u2192 paint <>{\"color\": \"red\"}\n<1;33>\u2192 rest <>{}");
  CHECK(Answer(true).shown("A", TokenSource::draft) == "<36>A");
  CHECK(Answer(false).shown("<think>Hm.") == "<think>\nHm."); // It was cut short.
  CHECK(Answer(false).shown("a <b>\n").starts_with("a <b>"));
  CHECK(Answer(false).shown("").empty());
}

TEST_CASE("without a reader an answer is its text as it is") {
  AnswerParts parts({}, nullptr, true);
  std::string all;
  for (const char* text : {"<think>", " a\n"})
    for (const AnswerParts::Shown& one : parts.read(text, {}))
      all += one.text;
  CHECK(all == "<think> a\n");
  CHECK(parts.finish().empty());
  CHECK(parts.message(true).content == all);
}

TEST_CASE("an answer's calls and reasoning, and their results, come back from a file") {
  Answer answer(false);
  answer.shown(calls);
  REQUIRE(answer.parts().calls().size() == 2);
  const Call& call = answer.parts().calls().front();
  CHECK(call.id != answer.parts().calls().back().id);
  const ChatMessage message = answer.parts().message(true);
  CHECK(message.role == "assistant");
  CHECK(message.content == "I paint.");
  Conversation talk{"", {{"user", "q", {}}, message, result_message(call, "done\n")}};
  const auto back = conversation_from_json("f", to_json(talk));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(talk));
  const json::array all = json::parse(to_json(talk)).at("messages").as_array();
  CHECK(all[1].at("reasoning_content") == "Hm.");
  const json::value& kept = all[1].at("tool_calls").at(0);
  CHECK(kept.at("id") == json::value(call.id));
  CHECK(kept.at("type") == "function");
  CHECK(kept.at("function").at("name") == "paint");
  CHECK(kept.at("function").at("arguments") == R"({"color": "red"})");
  CHECK(all[2].at("role") == "tool");
  CHECK(all[2].at("content") == "done\n");
  CHECK(all[2].at("tool_call_id") == json::value(call.id));
  CHECK(answer.parts().message(false).fields.size() == 1); // A message without calls.
}

TEST_CASE("tools are read as the API takes them, or as functions alone") {
  const TemporaryFolder folder;
  const std::string file = folder.write("tools.json", R"([
    {"type": "function", "function": {"name": "paint", "parameters": {"type": "object"}}},
    {"name": "rest", "strict": true}, {"type": "function", "name": "wait"}])");
  const auto tools = read_chat_tools(file);
  REQUIRE_MESSAGE(tools, tools.error().text());
  const auto& functions = tools->functions.functions;
  REQUIRE(functions.size() == 3);
  CHECK(functions[0].name == "paint");
  CHECK(functions[0].parameters == R"({"type":"object"})");
  CHECK(functions[1].strict);
  CHECK(functions[2].name == "wait");
  const json::value listed = json::parse(tools->listed);
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CHECK(listed.at(i).at("type") == "function");
    CHECK(listed.at(i).at("function").at("name") == json::value(functions[i].name));
  }
}

TEST_CASE("a file that lists no tools is refused by what is wrong in it") {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"[", "not valid JSON"},
      {"{}", "must be a list"},
      {"[1]", "[0] must be an object"},
      {R"([{"name": "a b"}])", "[0].name must be"},
      {R"([{"type": "function", "function": {}}])", "[0].function.name must be"},
      {R"([{"type": "web_search"}])", "[0].type must be"},
      {R"([{"name": "f", "parameters": 1}])", "[0].parameters must be an object"},
      {R"([{"name": "f"}, {"name": "f"}])", "[1].name must be named as no other is"}};
  for (const auto& [text, wrong] : cases) {
    CAPTURE(text);
    const std::string file = folder.write("tools.json", text);
    const auto tools = read_chat_tools(file);
    REQUIRE_FALSE(tools);
    CHECK(tools.error().message.starts_with(file));
    CHECK(tools.error().message.find(wrong) != std::string::npos);
    CHECK_FALSE(tools.error().hint.empty());
  }
  CHECK(read_chat_tools(folder.file("none")).error().code == ErrorCode::not_found);
}

TEST_CASE("tools are refused where the model cannot have them, or not beside a form") {
  ChatTools tools;
  ChatStyle style;
  Request request;
  CHECK(check_chat_tools(tools, style, request)); // There are none.
  tools.functions.functions = {{.name = "f"}};
  const auto refusal = [&] {
    const auto fits = check_chat_tools(tools, style, request);
    return fits ? std::string() : fits.error().text();
  };
  CHECK(refusal().find("its chat template shows it none") != std::string::npos);
  style.shows_tools = true;
  CHECK(refusal().find("--tool-call-parser") != std::string::npos);
  style.tools = text::tool_format("hermes");
  CHECK(refusal().empty());
  request.constraint = Constraint{Constraint::Kind::regex, "a", {}};
  CHECK(refusal().empty());
  style.tools = text::tool_format("gemma4"); // No form holds its calls.
  CHECK(refusal().find("form") != std::string::npos);
}

TEST_CASE("a result is what is typed, on one line or several, and some have none") {
  std::vector<std::string> prompts;
  Typing typing(std::make_unique<Lines>(std::deque<Typed>{line("red"),
                                                          line("/usr/bin"),
                                                          line("a\\"),
                                                          line("b"),
                                                          line("\"\"\""),
                                                          line(""),
                                                          line("/skip"),
                                                          line("\"\"\""),
                                                          line(""),
                                                          line("/skip"),
                                                          {Typed::Kind::pasted, "x\ny"}},
                                        &prompts));
  CHECK(typing.result("f") == "red");
  CHECK(prompts.front() == "result of f> ");
  CHECK(typing.result("f") == "/usr/bin");
  CHECK(typing.result("f") == "a\nb");
  CHECK(prompts.back() == ". ");
  CHECK(typing.result("f") == "\n/skip");
  for (int i = 0; i < 2; ++i)
    CHECK(typing.result("f").value().starts_with("error: "));
  CHECK(typing.result("f") == "x\ny");
  CHECK_FALSE(typing.result("f")); // The input has ended.
}

TEST_CASE("Ctrl-C abandons a call, and what was begun of its result is no message") {
  Typing typing(std::make_unique<Lines>(std::deque<Typed>{
      line("begun\\"), {Typed::Kind::interrupted, {}}, line("said"), line("cut\\")}));
  CHECK_FALSE(typing.result("f"));
  const auto command = typing.command();
  REQUIRE(command);
  CHECK((*command)->argument == "said");
  CHECK(typing.result("f") == "cut"); // The input's end is its own.
}
