// Answers with calls and reasoning, in every format: wherever they are cut, the same comes of them.
#include "text/answer_parser.hpp"

#include "tests/support/files.hpp"

#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <random>
#include <utility>

using namespace paceline;
using namespace paceline::text;
namespace json = boost::json;

namespace {

using Kind = AnswerPiece::Kind;
using Pieces = std::vector<AnswerPiece>;

const std::vector<ToolFunction> functions{
    {.name = "find", .parameters = R"({"type": "object", "properties": {
        "what": {"type": "string"}, "most": {"type": "integer"}, "deep": {"type": "boolean"},
        "in": {"type": "array"}}})"},
    {.name = "now"}};

AnswerParser parser(const char* tools, const char* reasoning = nullptr, bool in_reasoning = false) {
  return AnswerParser({.tools = tools ? tool_format(tools) : nullptr,
                       .functions = functions,
                       .reasoning = reasoning ? reasoning_format(reasoning) : nullptr,
                       .in_reasoning = in_reasoning});
}

/// Joins what was only cut.
void take(Pieces& all, Pieces more) {
  for (AnswerPiece& piece : more)
    append(all, std::move(piece));
}

std::string shown(const Pieces& pieces) {
  constexpr const char* names[] = {"C", "R", "F", "A", "."};
  std::string out;
  for (const AnswerPiece& piece : pieces)
    out += std::string(names[int(piece.kind)]) + "[" + piece.text + "] ";
  return out;
}

struct Case {
  const char* tools;
  std::string text;
  std::string pieces; ///< As `shown` writes them.
  const char* reasoning = nullptr;
  bool in_reasoning = false;
};

Pieces read(const Case& one, const std::vector<std::size_t>& cuts) {
  AnswerParser reads = parser(one.tools, one.reasoning, one.in_reasoning);
  Pieces all;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    take(all, reads.feed(std::string_view(one.text).substr(from, cut - from)));
    from = cut;
  }
  take(all, reads.feed(std::string_view(one.text).substr(from)));
  take(all, reads.finish());
  return all;
}

const Case cases[] = {
    // one call, several, and what stands around them
    {"hermes",
     "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"what\": \"a}b\\\"{\"}}\n</tool_call>",
     R"(F[find] A[{"what": "a}b\"{"}] .[] )"},
    {"hermes",
     "I "
     "look.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</"
     "tool_call>\n<tool_call>\n{\"arguments\": "
     "{\"most\": 2}, \"name\": \"find\"}\n</tool_call>\nDone. ",
     "C[I look.] F[now] A[{}] .[] F[find] A[{\"most\": 2}] .[] C[\nDone. ] "},
    {"hermes", "<tool_call>{\"name\": \"now\"}</tool_call>", "F[now] A[{}] .[] "},
    {"hermes",
     "<tool_call>{\"name\": \"now\", \"arguments\": null, \"id\": [1, \"}\"]}</tool_call>",
     "F[now] A[{}] .[] "},
    {"hermes", R"(<tool_call>{"name": "find", "arguments": "{\"most\": 1}"}</tool_call>)",
     R"(F[find] A[{"most": 1}] .[] )"},
    {"hermes", "a < b, <tool_calls> and <tool_call", "C[a < b, <tool_calls> and <tool_call] "},
    {"hermes", " just text \n", "C[ just text \n] "},
    {"hermes", "", ""},
    // malformed ones are content, and nothing is lost
    {"hermes", "<tool_call>{\"name\": \"none\", \"arguments\": {}}</tool_call>",
     "C[<tool_call>{\"name\": \"none\", \"arguments\": {}}</tool_call>] "},
    {"hermes", "<tool_call>find</tool_call>", "C[<tool_call>find</tool_call>] "},
    {"hermes", "<tool_call>\n{\"name\": \"find\"", "C[<tool_call>\n{\"name\": \"find\"] "},
    {"hermes", "<tool_call><tool_call>{\"name\": \"now\"}</tool_call>",
     "C[<tool_call>] F[now] A[{}] .[] "},
    // cut short, or malformed once it has begun
    {"hermes", "<tool_call>{\"name\": \"find\", \"arguments\": {\"what\": \"ab",
     "F[find] A[{\"what\": \"ab] .[] "},
    {"hermes", "<tool_call>{\"name\": \"find\", \"arguments\": {\"most\": 1}</tool_call>",
     "F[find] A[{\"most\": 1}] .[] "},
    {"hermes", "<tool_call>{\"name\": \"find\", \"arguments\": {\"most\": 1} nonsense</tool_call>",
     "F[find] A[{\"most\": 1}] .[] C[ nonsense</tool_call>] "},
    {"qwen3_coder",
     "<tool_call>\n<function=find>\n<parameter=what>\na "
     "\"b\"\n<c>\t\n</parameter>\n<parameter=most>\n3\n"
     "</parameter>\n<parameter=deep>\nTrue\n</parameter>\n<parameter=in>\n[\"x\", "
     "1]\n</parameter>\n"
     "<parameter=other>\nword\n</parameter>\n</function>\n</tool_call>",
     "F[find] A[{\"what\": \"a \\\"b\\\"\\n<c>\\t\", \"most\": 3, \"deep\": true, \"in\": [\"x\", "
     "1], "
     "\"other\": \"word\"}] .[] "},
    {"qwen3_coder",
     "Now.\n<function=now>\n</function>\n</tool_call>\n<tool_call><function=now></function></"
     "tool_call>",
     "C[Now.] F[now] A[{}] .[] F[now] A[{}] .[] "},
    {"qwen3_coder", "<tool_call>\n<function=none>\n</function>",
     "C[<tool_call>\n<function=none>\n</function>] "},
    {"qwen3_coder", "<tool_call>\n<function=find>\n<parameter=what>\nab",
     "F[find] A[{\"what\": \"ab] .[] "},
    {"qwen3_coder", "<tool_call><function=find><parameter=most>3</parameter>oh</function>",
     "F[find] A[{\"most\": 3}] .[] C[oh</function>] "},
    {"llama3_json", "{\"name\": \"find\", \"parameters\": {\"what\": \"x\"}}",
     "F[find] A[{\"what\": \"x\"}] .[] "},
    {"llama3_json",
     "\n<|python_tag|>{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": "
     "\"find\", "
     "\"parameters\": {\"most\": 1}}",
     "F[now] A[{}] .[] F[find] A[{\"most\": 1}] .[] "},
    {"llama3_json", "{\"name\": \"Ada\", \"parameters\": 3}",
     "C[{\"name\": \"Ada\", \"parameters\": 3}] "},
    {"llama3_json", "See {\"name\": \"now\"}", "C[See {\"name\": \"now\"}] "},
    {"llama3_json", "{\"name\": \"now\"} then", "F[now] A[{}] .[] C[ then] "},
    {"pythonic", "[find(what='it\\'s \"x\"', most=-2, in=[1, (True, None), {\"a\": 'b'}]), now()]",
     "F[find] A[{\"what\": \"it's \\\"x\\\"\", \"most\": -2, \"in\": [1, [true, null], {\"a\": "
     "\"b\"}]}] .[] "
     "F[now] A[{}] .[] "},
    {"pythonic", "[find(most=1), none()]", "C[[find(most=1), none()]] "},
    {"pythonic", "[1, 2]", "C[[1, 2]] "},
    {"pythonic", "[find(what=x)]", "C[[find(what=x)]] "},
    {"mistral", "[TOOL_CALLS]find[ARGS]{\"most\": 1}[TOOL_CALLS]now[CALL_ID]ab1[ARGS]{}",
     "F[find] A[{\"most\": 1}] .[] F[now] A[{}] .[] "},
    {"mistral",
     "So:[TOOL_CALLS] [{\"name\": \"find\", \"arguments\": {\"most\": 1}, \"id\": \"abc\"}, "
     "{\"name\": "
     "\"now\", \"arguments\": {}}]",
     "C[So:] F[find] A[{\"most\": 1}] .[] F[now] A[{}] .[] "},
    {"mistral", "[TOOL_CALLS]none[ARGS]{}", "C[[TOOL_CALLS]none[ARGS]{}] "},
    {"mistral_list", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"none\"}]",
     "F[now] A[{}] .[] C[, {\"name\": \"none\"}]] "},
    {"granite", "<|tool_call|>[{\"arguments\": {\"most\": 1}, \"name\": \"find\"}]",
     "F[find] A[{\"most\": 1}] .[] "},
    {"glm45",
     "I look.\n<tool_call>find\n<arg_key>what</arg_key>\n<arg_value>a \"b\"\n<c></arg_value>\n"
     "<arg_key>most</arg_key>\n<arg_value>3</arg_value>\n<arg_key>in</arg_key>\n"
     "<arg_value>[\"x\", 1]</arg_value>\n</tool_call>",
     "C[I look.] F[find] A[{\"what\": \"a \\\"b\\\"\\n<c>\", \"most\": 3, \"in\": [\"x\", 1]}] "
     ".[] "},
    {"glm45",
     "<tool_call>now</tool_call><tool_call>find<arg_key>most</arg_key><arg_value>1</arg_value>"
     "<arg_key>other</arg_key><arg_value>x y</arg_value></tool_call>Done.",
     "F[now] A[{}] .[] F[find] A[{\"most\": 1, \"other\": \"x y\"}] .[] C[Done.] "},
    {"glm45", "<tool_call>now it is</tool_call>", "C[<tool_call>now it is</tool_call>] "},
    {"glm45", "<tool_call>none</tool_call>", "C[<tool_call>none</tool_call>] "},
    {"glm45", "<tool_call>find<arg_key>what</arg_key><arg_value>ab",
     "F[find] A[{\"what\": \"ab] .[] "},
    {"glm45", "<tool_call>find<arg_key>most</arg_key>3</tool_call>",
     "F[find] A[{}] .[] C[<arg_key>most</arg_key>3</tool_call>] "},
    {"gemma4", "<|tool_call>call:find{what:<|\"|>a {\"b\"}, <c|\n<|\"|>,most:-2}<tool_call|>",
     "F[find] A[{\"what\": \"a {\\\"b\\\"}, <c|\\n\", \"most\": -2}] .[] "},
    {"gemma4",
     "I look.<|tool_call>call:find{in:[<|\"|>x<|\"|>,{a:1.5e10,<|\"|>b c<|\"|>:[]},null],deep:true}"
     "<tool_call|><|tool_call>call:now{}<tool_call|>",
     "C[I look.] F[find] A[{\"in\": [\"x\", {\"a\": 1.5e10, \"b c\": []}, null], \"deep\": true}] "
     ".[] "
     "F[now] A[{}] .[] "},
    {"gemma4", "<|tool_call>call:none{}<tool_call|>", "C[<|tool_call>call:none{}<tool_call|>] "},
    {"gemma4", "<|tool_call>find{}", "C[<|tool_call>find{}] "},
    {"gemma4", "<|tool_call>call:find{what:<|\"|>ab", "F[find] A[{\"what\": \"ab] .[] "},
    {"gemma4", "<|tool_call>call:find{most:some}<tool_call|>",
     "F[find] A[{\"most\": ] .[] C[some}<tool_call|>] "},
    {"openai",
     "<|channel|>commentary to=functions.find <|constrain|>json<|message|>{\"most\": 1}<|call|>",
     "F[find] A[{\"most\": 1}] .[] "},
    {"openai", "<|channel|>commentary to=functions.none<|message|>{}",
     "C[<|channel|>commentary to=functions.none<|message|>{}] "},
    // reasoning, with calls and without
    {nullptr, "<think>\nWell.\n\n</think>\n\nYes. \n", "R[Well.] C[Yes. \n] ", "think"},
    {nullptr, "\n<think>Well. </thin k>", "R[Well. </thin k>] ", "think"},
    {nullptr, "\nAnd a < b <think>", "C[\nAnd a < b <think>] ", "think"},
    {nullptr, "Well.</think>Yes.", "R[Well.] C[Yes.] ", "think", true},
    {nullptr, "<think></think>", "", "think"},
    {"mistral", "[THINK]<think>[/THINK][TOOL_CALLS]now[ARGS]{}", "R[<think>] F[now] A[{}] .[] ",
     "mistral"},
    {"hermes",
     "<think>\n<tool_call>{\"name\": \"now\"}</tool_call>?\n</think>\n\n<tool_call>\n{\"name\": "
     "\"now\"}\n"
     "</tool_call>",
     "R[<tool_call>{\"name\": \"now\"}</tool_call>?] F[now] A[{}] .[] ", "think"},
    {"glm45", "Well.\n</think><tool_call>now</tool_call>", "R[Well.] F[now] A[{}] .[] ", "think",
     true},
    {"gemma4", "<|channel>thought\nI'm\nthinking<channel|><|tool_call>call:now{}<tool_call|>",
     "R[I'm\nthinking] F[now] A[{}] .[] ", "gemma4"},
    {"gemma4", "<|channel>thought<channel|>Yes.", "C[Yes.] ", "gemma4"},
    // messages in channels
    {nullptr, "<|channel|>final<|message|>Yes.\nNo.", "C[Yes.\nNo.] ", "openai"},
    {nullptr,
     "<|channel|>analysis<|message|>Well.\n<|end|><|start|>assistant<|channel|>final "
     "<|constrain|>json"
     "<|message|>{\"a\": 1}<|return|>",
     "R[Well.] C[{\"a\": 1}] ", "openai"},
    {nullptr, "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Well.<|en",
     "R[Well.<|en] ", "openai"},
    {nullptr, "Hello <|end|>.", "C[Hello <|end|>.] ", "openai"},
    {nullptr, "<|channel|>", "C[<|channel|>] ", "openai"},
    {"openai",
     "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>commentary<|message|>"
     "I "
     "look.<|end|><|start|>assistant<|channel|>commentary to=functions.find "
     "<|constrain|>json<|message|>"
     "{\"what\": \"<|end|>\"}<|call|>",
     "R[Well.] C[I look.] F[find] A[{\"what\": \"<|end|>\"}] .[] ", "openai"},
    {"openai", " to=functions.now<|channel|>commentary json<|message|>{}", "F[now] A[{}] .[] ",
     "openai"},
    {"openai", "<|channel|>analysis to=functions.find code<|message|>{\"most\": 1}<|call|>",
     "F[find] A[{\"most\": 1}] .[] ", "openai"},
    {"openai", "<|channel|>commentary to=python<|message|>print(1)<|call|>", "C[print(1)] ",
     "openai"},
    {"openai", "<|channel|>commentary to=functions.none<|message|>{\"most\": 1}",
     "C[{\"most\": 1}] ", "openai"},
    {"openai", "<|channel|>commentary to=functions.find<|message|>{\"most\": ",
     "F[find] A[{\"most\": ] .[] ", "openai"},
    {"llama3_json", "<think>a</think>\n{\"name\": \"now\"}", "R[a] F[now] A[{}] .[] ", "think"}};

} // namespace

TEST_CASE("an answer gives its reasoning, content and calls, in each format") {
  for (const Case& one : cases) {
    CAPTURE(one.text);
    CHECK(shown(read(one, {})) == one.pieces);
  }
}

TEST_CASE("wherever an answer is cut, the same comes of it") {
  std::mt19937 chance(11);
  for (const Case& one : cases) {
    CAPTURE(one.text);
    std::vector<std::size_t> every;
    for (std::size_t cut = 1; cut < one.text.size(); ++cut) {
      every.push_back(cut);
      CHECK(shown(read(one, {cut})) == one.pieces);
    }
    CHECK(shown(read(one, every)) == one.pieces);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::size_t> some;
      for (const std::size_t cut : every)
        if (chance() % 4 == 0)
          some.push_back(cut);
      CHECK(shown(read(one, some)) == one.pieces);
    }
  }
}

TEST_CASE("content says where in the text it stands") {
  for (const Case& one : cases) {
    CAPTURE(one.text);
    AnswerParser reads = parser(one.tools, one.reasoning, one.in_reasoning);
    std::size_t behind = 0;
    const auto check = [&](const Pieces& pieces) {
      std::string content;
      for (const AnswerPiece& piece : pieces)
        content += piece.kind == Kind::content ? piece.text : "";
      const TextSpan span = reads.content();
      CHECK(one.text.substr(span.from, span.to - span.from) == content);
      if (!content.empty())
        CHECK(span.from >= std::exchange(behind, span.to));
    };
    for (const char c : one.text)
      check(reads.feed(std::string_view(&c, 1)));
    check(reads.finish());
  }
}

TEST_CASE("arguments come as soon as they are there, behind the name") {
  AnswerParser reads = parser("hermes");
  CHECK(reads.feed("<tool_call>{\"name\": \"find\", \"arguments\": ").empty());
  CHECK(shown(reads.feed("{\"wh")) == "F[find] A[{\"wh] ");
  CHECK(shown(reads.feed("at\": \"x")) == "A[at\": \"x] ");
  CHECK(shown(reads.feed("\"}}")) == "A[\"}] .[] ");
  CHECK(reads.feed("</tool_call>").empty());
  CHECK(reads.finish().empty());
  AnswerParser coder = parser("qwen3_coder");
  CHECK(shown(coder.feed("<tool_call><function=find><parameter=what>a\"b")) ==
        "F[find] A[{\"what\": \"a\\\"b] ");
}

TEST_CASE("what models write at random is never lost, and no parser ends") {
  constexpr const char* parts[] = {"<tool_call>",
                                   "</tool_call>",
                                   "{\"name\": \"find\"",
                                   ", \"arguments\": ",
                                   "{\"most\": 1}",
                                   "}",
                                   "[",
                                   "]",
                                   "\n",
                                   "<think>",
                                   "</think>",
                                   "text",
                                   "<function=find>",
                                   "<parameter=what>",
                                   "</parameter>",
                                   "</function>",
                                   "[TOOL_CALLS]",
                                   "find",
                                   "[ARGS]",
                                   "(most=",
                                   "1",
                                   ")",
                                   "\"",
                                   "\\",
                                   "<arg_key>what</arg_key>",
                                   "<arg_value>",
                                   "</arg_value>",
                                   "<|tool_call>call:",
                                   "{what:",
                                   "<|\"|>",
                                   "<|channel|>",
                                   "commentary to=functions.",
                                   "<|message|>",
                                   "\xc3\xa9"};
  std::mt19937 chance(5);
  for (const ToolFormat& format : tool_formats())
    for (int round = 0; round < 2000; ++round) {
      Case one{format.name.data(), "", "", "think", round % 3 == 0};
      for (unsigned n = chance() % 12; n-- > 0;)
        one.text += parts[chance() % std::size(parts)];
      const std::string whole = shown(read(one, {}));
      const std::size_t cut = one.text.empty() ? 0 : chance() % one.text.size();
      CAPTURE(one.text);
      CHECK(shown(read(one, {cut})) == whole);
      if (whole.find("F[") != std::string::npos || whole.find("R[") != std::string::npos)
        continue;
      std::string content;
      for (const AnswerPiece& piece : read(one, {}))
        content += piece.text;
      if (!one.in_reasoning && one.text.find("<think>") == std::string::npos)
        CHECK(content == one.text);
    }
}

TEST_CASE("a text full of openings is read in time that its length bounds") {
  std::string text;
  while (text.size() < 200'000)
    text += "<tool_call>{\"name\": \"";
  CHECK(shown(read({"hermes", text, ""}, {})) == "C[" + text + "] ");
}

TEST_CASE("a format is known by the template that asks for it") {
  const auto named = [](const char* file) {
    const std::string source =
        testing::read_file(std::string(PACELINE_TEST_DATA) + "/chat_templates/" + file + ".jinja");
    const auto* tools = tool_format_of(source);
    const auto* thinks = reasoning_format_of(source);
    return std::string(tools ? tools->name : "-") + " " + std::string(thinks ? thinks->name : "-");
  };
  CHECK(named("qwen-2.5") == "hermes -");
  CHECK(named("qwen-3") == "- think");
  CHECK(named("llama-3.1") == "llama3_json -");
  CHECK(named("mistral") == "mistral_list -");
  CHECK(named("gemma-2") == "- -");
  CHECK(tool_format_of("<tool_call>f<arg_key>a</arg_key>\"arguments")->name == "glm45");
  CHECK(tool_format_of("<tool_call><function=f><parameter=a> \"arguments")->name == "qwen3_coder");
  CHECK(!tool_format_of("<seed:tool_call><function=f><parameter=a>"));
  CHECK(tool_format_of("[TOOL_CALLS]f[ARGS]")->name == "mistral");
  CHECK(tool_format_of("<|tool_call|>")->name == "granite");
  CHECK(tool_format_of("<|tool_call>call:f{}<tool_call|>")->name == "gemma4");
  const char* harmony = "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}"
                        "<|call|><|channel|>analysis<|message|><|end|>";
  CHECK(tool_format_of(harmony)->name == "openai");
  CHECK(reasoning_format_of(harmony)->channels);
  CHECK(reasoning_format_of("<|channel>thought\nx<channel|>")->name == "gemma4");
}
