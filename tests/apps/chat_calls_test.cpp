// paceline chat with functions that its model calls, through a pipe.
#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>

using namespace paceline::testing;
namespace json = boost::json;

namespace {

/// Shows its model the functions. A model that goes on as before calls one after a user's message,
/// and says "done" after a result; the form of its answers allows no more than that.
constexpr const char* calling =
    "{{ tools | tojson if tools }}{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %};{% endfor %}"
    "{% if messages[-1].role == 'tool' or not tools %}{{ '\\ndone' * 9 }}\n{% else %}"
    "{{ '\\n<|tool_call|>[{\"name\": \"rest\", \"arguments\": {}}]' * 9 }}\n{% endif %}";
constexpr const char* silent = "{% for m in messages %}{{ m.content }}{% endfor %}";
constexpr const char* functions = R"([{"name": "rest", "description": "Rests."}])";
const std::string called = "\u2192 rest {}\n";

class CallingModel {
public:
  explicit CallingModel(const std::string& chat_template)
      : template_(folder_.write("template.jinja", chat_template)),
        tools_(folder_.write("tools.json", functions)) {}
  std::string file(const std::string& name) const { return folder_.file(name); }
  ProcessResult chat(const std::string& input, const std::vector<std::string>& words = {},
                     int tokens = 80) const {
    std::vector<std::string> arguments{"chat"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    for (const std::string& option : std::vector<std::string>{
             "-q", "--chat-template", template_, "--tools", tools_, "--tool-call-parser", "granite",
             "-n", std::to_string(tokens), "--temperature", "0", "--regex", "done"})
      arguments.push_back(option);
    return run_paceline(arguments, input);
  }
  json::array saved(const std::string& name) const {
    std::ifstream in(file(name));
    return json::parse(std::string(std::istreambuf_iterator<char>(in), {}))
        .at("messages")
        .as_array();
  }

private:
  TemporaryFolder folder_;
  std::string template_;
  std::string tools_;
};

} // namespace

TEST_CASE("a chat shows a call, takes the next line as its result, and goes on") {
  const CallingModel model(calling);
  const std::string talk = model.file("talk.json");
  const auto result =
      model.chat("Rest.\nrested\n/save " + talk + "\n/retry\n\n/save " + model.file("again.json") +
                 "\n/load " + talk + "\nAgain.\n/skip\n");
  INFO(result.errors);
  CHECK(result.status == 0);
  CHECK(result.output == called + "done\n" + called + "done\n" + called + "done\n");
  const json::array messages = model.saved("talk.json");
  REQUIRE(messages.size() == 4);
  const json::value& call = messages[1].at("tool_calls").at(0);
  CHECK(call.at("function").at("name") == "rest");
  CHECK(call.at("function").at("arguments") == "{}");
  CHECK(messages[2].at("role") == "tool");
  CHECK(messages[2].at("content") == "rested");
  CHECK(messages[2].at("tool_call_id") == call.at("id"));
  CHECK(messages[3].at("content") == "done");
  const json::array again = model.saved("again.json"); // With another result.
  REQUIRE(again.size() == 4);
  CHECK(again[2].at("content").as_string().starts_with("error: "));
}

TEST_CASE("where the input ends before a result, what was said counts as not said") {
  const CallingModel model(calling);
  const auto result = model.chat("Rest.\n");
  CHECK(result.status == 0);
  CHECK(result.output == called);
  CHECK(result.errors.find("no result of rest") != std::string::npos);
  const auto once = model.chat("rested\n", {"demo", "Rest."}); // A question that is answered alone.
  CHECK(once.output == called + "done\n");
}

TEST_CASE("a call that is cut short is not made") {
  const CallingModel model(calling);
  const auto result = model.chat("Rest.\n/save " + model.file("talk.json") + "\n", {}, 24);
  CHECK(result.status == 0);
  CHECK(result.errors.find("nothing is called") != std::string::npos);
  CHECK(model.saved("talk.json").empty());
}

TEST_CASE("tools are refused where the template shows none, and files that list none by name") {
  const CallingModel model(silent);
  check_complaint(model.chat("x\n"), 2, {"--tools", "template shows it none"});
  const TemporaryFolder folder;
  const std::string wrong = folder.write("wrong.json", R"([{"name": 1}])");
  check_complaint(run_paceline({"chat", "--tools", wrong}), 2, {"--tools", "[0].name"});
  check_complaint(run_paceline({"chat", "--tools", folder.file("none")}), 2, {"--tools", "none"});
  check_complaint(run_paceline({"chat", "--tool-call-parser", "x"}), 2, {"hermes"});
}

TEST_CASE("through a pipe reasoning stands between its marks, and is content where none is read") {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
                                     "{% if false %}</think>{% endif %}");
  const auto answer = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"chat", "-q", "--chat-template", file,
                                       "-n",   "8",  "--temperature",   "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_paceline(arguments, "def f():\n").output;
  };
  CHECK(answer({}).starts_with("<think>\n"));
  const std::string plain = answer({"--reasoning-parser", "none"});
  CHECK_FALSE(plain.empty());
  CHECK(plain.find("<think>") == std::string::npos);
}
