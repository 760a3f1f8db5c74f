// Forms of all kinds: what they hold an answer to, and what strangers send in their place.
#include "tests/constraints/forms.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>
#include <thread>

using namespace paceline;
using namespace paceline::testing;

namespace {

std::string nested(const std::string& opening, const std::string& inside,
                   const std::string& closing, int depth) {
  return repeated(opening, depth) + inside + repeated(closing, depth);
}

} // namespace

TEST_CASE("expressions, grammars, choices and JSON hold an answer to what they say") {
  Forms forms;
  const auto date = forms.compile(Constraint::Kind::regex, R"(\d{4}-[01]\d)").value();
  CHECK(forms.holds(*date, "2026-11"));
  CHECK(!forms.holds(*date, "2026-11 "));
  CHECK(!forms.holds(*date, "2026-21"));
  const auto list = forms
                        .compile(Constraint::Kind::grammar,
                                 "root ::= item (\", \" item)*\nitem ::= [a-c]+ | \"<\" item \">\"")
                        .value();
  CHECK(forms.holds(*list, "a, <<b>>, cab"));
  CHECK(!forms.holds(*list, "a, <<b>"));
  CHECK(!forms.holds(*list, ""));
  const auto object = forms.compile(Constraint::Kind::json, "").value();
  CHECK(forms.holds(*object, R"({"any": [1, {"thing": null}]})"));
  CHECK(!forms.holds(*object, "[1]"));
  const auto choice = forms.choice({"yes", "no\n", "a\"b\\", "\x7fé", "yes, but"}).value();
  for (const std::string text : {"yes", "no\n", "a\"b\\", "\x7fé", "yes, but"})
    CHECK_MESSAGE(forms.holds(*choice, text), text);
  for (const std::string text : {"ye", "no", "a\"b", "yes,", ""})
    CHECK_MESSAGE(!forms.holds(*choice, text), text);
}

TEST_CASE("a mask is a function of the output, whatever was asked or expected before") {
  Forms forms;
  const std::string grammar = "root ::= (\"a\" [b-e]{1,3} | \"[\" root \"]\")+";
  const int vocabulary = forms.tokenizer().vocabulary();
  std::mt19937 chance(7);
  const auto asked = forms.compile(Constraint::Kind::grammar, grammar).value();
  std::vector<std::vector<TokenId>> outputs{{}};
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> output = outputs[chance() % outputs.size()];
    output.resize(chance() % (output.size() + 1));
    CAPTURE(output.size());
    if (chance() % 3 == 0) {
      std::vector<TokenId> window(chance() % 6);
      for (TokenId& token : window)
        token = TokenId(chance() % unsigned(vocabulary));
      asked->expect({output, 0, {}}, window);
    }
    sampling::TokenMask mask;
    sampling::TokenMask fresh;
    const std::size_t split = chance() % (output.size() + 1); // what a window has counts as output
    const bool restricted =
        asked->next({std::span(output).first(split), 0, std::span(output).subspan(split)}, mask);
    const auto anew = forms.compile(Constraint::Kind::grammar, grammar).value();
    CHECK(anew->next({output, 0, {}}, fresh) == restricted);
    if (restricted)
      CHECK(mask == fresh);
    const auto told = Forms::told(*asked, output);
    const auto told_anew = Forms::told(*anew, output);
    CHECK(told.has_value() == told_anew.has_value());
    if (told && told_anew) {
      CHECK(told->token == told_anew->token);
      CHECK(told->kind == told_anew->kind);
      CHECK(sampling::allows(fresh, told->token));
      CHECK((told->kind == sampling::FormToken::Kind::only) ==
            sampling::only_token(fresh).has_value());
    }
    TokenId next = TokenId(chance() % unsigned(vocabulary)); // mostly outside the form
    while (restricted && chance() % 8 && !sampling::allows(mask, next))
      next = (next + 1) % vocabulary;
    output.push_back(next);
    outputs.push_back(std::move(output));
  }
}

TEST_CASE("a form says what comes next wherever all that may come is the beginning of one text") {
  using Kind = sampling::FormToken::Kind;
  Forms forms;
  const std::string text = "def elephant(self):";
  const auto choice = forms.choice({text}).value();
  std::vector<TokenId> output;
  std::string said;
  for (auto told = Forms::told(*choice, output); told && told->token != Forms::end_of_text;
       told = Forms::told(*choice, output)) {
    CHECK(told->kind != Kind::usual);
    output.push_back(told->token);
    said += forms.tokenizer().bytes(told->token);
  }
  CHECK(said == text);
  std::vector<TokenId> letters; // and whoever draws may spell it otherwise
  for (const char c : text) {
    const std::vector<TokenId> letter = forms.tokenizer().encode(std::string(1, c), false);
    REQUIRE(letter.size() == 1);
    CHECK(Forms::allows(*choice, letters, letter.front()));
    letters.push_back(letter.front());
  }
  CHECK(output.size() < text.size() / 2); // the tokens are the longest that fit
  CHECK(Forms::told(*choice, output)->kind == Kind::only);
  const auto parting = forms.choice({"return x", "return y"}).value();
  output.clear();
  while (const auto told = Forms::told(*parting, output))
    output.push_back(told->token);
  CHECK(forms.tokenizer().decode(output).starts_with("return"));
  CHECK(forms.tokenizer().decode(output).size() < 8);
  const auto open = forms.compile(Constraint::Kind::regex, "a+").value();
  CHECK(!Forms::told(*open, forms.tokenizer().encode("a", false))); // the text may end there
}

TEST_CASE("JSON without free blanks has those that are usual, and its form knows them") {
  Forms forms;
  const std::string schema = R"({"type": "object", "properties": {"given_name": {"type": "integer"},
      "age": {"type": "integer"}}, "required": ["given_name", "age"]})";
  const auto usual = forms.usual_json(schema).value();
  const auto free = forms.compile(Constraint::Kind::json_schema, schema).value();
  CHECK(forms.holds(*usual, R"({"given_name": 3, "age": 4})"));
  for (const char* text : {R"({"given_name":3,"age":4})", R"({ "given_name": 3, "age": 4})",
                           R"({"given_name": 3,  "age": 4})"}) {
    CHECK(!forms.holds(*usual, text));
    CHECK(forms.holds(*free, text));
  }
  const auto guessed = [&](const sampling::Constraint& form) {
    std::vector<TokenId> output;
    int guesses = 0;
    for (auto told = Forms::told(form, output); told; told = Forms::told(form, output)) {
      guesses += told->kind == sampling::FormToken::Kind::usual;
      output.push_back(told->token);
    }
    CHECK(forms.tokenizer().decode(output) == R"({"given_name": )");
    return guesses;
  };
  CHECK(guessed(*usual) <= 1); // a digit's token may begin with the blank
  CHECK(guessed(*free) > 1);
  const auto regex = forms.refusal_of({Constraint::Kind::regex, "a", {}, false});
  CHECK(regex.find("any_whitespace") != std::string::npos);
}

TEST_CASE("JSON goes on with the blanks that are usual, and with keys alone where it has others") {
  using Kind = sampling::FormToken::Kind;
  Forms forms;
  const auto person = forms
                          .compile(Constraint::Kind::json_schema,
                                   R"({"type": "object", "properties": {"given_name": {"type":
                                     "integer"}, "age": {"type": "integer"}},
                                     "required": ["given_name", "age"]})")
                          .value();
  const auto told_by = [&](std::string begun) {
    std::vector<TokenId> output = forms.tokenizer().encode(begun, false);
    std::vector<Kind> kinds;
    const std::size_t given = output.size();
    for (auto told = Forms::told(*person, output); told && output.size() < given + 20;
         told = Forms::told(*person, output)) {
      kinds.push_back(told->kind);
      output.push_back(told->token);
    }
    return std::pair(forms.tokenizer().decode(std::span(output).subspan(given)), kinds);
  };
  CHECK(told_by("").first == R"({"given_name": )");
  CHECK(told_by(R"({"given_name": 3)").first == ""); // another digit may come
  CHECK(told_by(R"({"given_name": 3,)").first ==
        R"( "age": )"); // and no sign, which would be the longest token
  CHECK(told_by("{\n\t\"").first == "given_name\"");
  CHECK(told_by("{\n\t\"").second.front() != Kind::usual);
}

TEST_CASE("forms that strangers make large, deep or slow are refused, or answered in time") {
  Forms forms;
  const auto schema_of_depth = [](int depth) {
    return nested(R"({"type":"array","items":)", R"({"type":"null"})", "}", depth);
  };
  std::string strings; // of many lengths
  for (int n = 0; n < 200; ++n)
    strings += fmt::format(R"({}{{"type":"string","maxLength":{}}})", n == 0 ? "" : ",", 1000 - n);
  for (const auto& [kind, text] : {
           std::pair{Constraint::Kind::regex, repeated(".*", 3000)},
           {Constraint::Kind::json_schema, R"({"anyOf": [)" + strings + "]}"},
           {Constraint::Kind::regex, repeated("a?", 2000) + repeated("a", 2000)},
           {Constraint::Kind::regex, nested("(", "a", ")", 1000)},
           {Constraint::Kind::regex, repeated("a", 9000)},
           {Constraint::Kind::regex, "a{1000000}"},
           {Constraint::Kind::grammar, "root ::= " + nested("(", "\"a\"", ")", 1000)},
           {Constraint::Kind::grammar, "root ::= \"a\"{100001}"},
           {Constraint::Kind::grammar, "root ::= root"},
           {Constraint::Kind::grammar, "root ::= other"},
           {Constraint::Kind::json_schema, schema_of_depth(100)},
           {Constraint::Kind::json_schema,
            R"({"type": "string", "pattern": ")" + repeated(".*", 5000) + "\"}"},
           {Constraint::Kind::json_schema, R"({"type": "object", "patternProperties": {")" +
                                               repeated(".*", 5000) + R"(": {"type": "null"}}})"},
           {Constraint::Kind::structural_tag,
            R"({"type": "structural_tag", "format": {"type": "regex",
                                    "pattern": ")" +
                repeated(".*", 5000) + "\"}}"},
           {Constraint::Kind::structural_tag,
            R"({"type": "structural_tag", "format": {"type": "none"}})"},
           {Constraint::Kind::json_schema, std::string(70'000, ' ') + "{}"},
       }) {
    CAPTURE(text.substr(0, 60));
    const std::string said = forms.refusal(kind, text);
    CHECK(said != "taken");
    CHECK(said.find('\n') == std::string::npos);
    CHECK(forms.refusal(kind, text) == said);
  }
  CHECK(forms.refusal(Constraint::Kind::json_schema, schema_of_depth(20)) == "taken");
  CHECK(forms.choice({}).error().text().find("choice") != std::string::npos);
  CHECK(!forms.choice(std::vector<std::string>(1025, "a")));
}

TEST_CASE("forms are compiled and asked from many threads at once") {
  Forms forms;
  const auto shared = forms.compile(Constraint::Kind::grammar, "root ::= \"a\"{1,40}").value();
  const std::vector<TokenId> as = forms.tokenizer().encode(repeated("a", 20), false);
  const auto string =
      forms.compile(Constraint::Kind::json_schema, R"({"type": "string", "maxLength": 40})")
          .value();
  const std::vector<TokenId> letters =
      forms.tokenizer().encode("\"a b c d e f g h i j k l m", false);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const auto own =
            forms.compile(Constraint::Kind::regex, fmt::format("[a-c]{{{}}}", 1 + (i * t) % 7));
        const auto output = std::span(as).first(std::size_t(i * (t + 1)) % as.size());
        shared->expect({output, 0, {}}, as);
        wrong += !own || !Forms::allows(*shared, output, as.front());
        const std::size_t known = std::size_t(i * (t + 1)) % letters.size();
        wrong += !Forms::allows(*string, std::span(letters).first(known), letters[known]);
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}
