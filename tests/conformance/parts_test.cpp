// What the suite is made of, without a server.
#include "apps/laboratory/conformance/draws.hpp"
#include "apps/laboratory/conformance/report.hpp"

#include <cmath>
#include <ctime>
#include <doctest/doctest.h>
#include <random>

using namespace paceline::apps::conformance;

namespace {

/// A position whose tokens a, b, ... have these probabilities.
Scored position(const std::vector<double>& probabilities) {
  Scored scored;
  for (const double p : probabilities)
    scored.top.emplace_back(std::string(1, char('a' + scored.top.size())), std::log(p));
  return scored;
}

/// Draws from positions of three kinds; with `biased`, some draws are the likeliest instead.
Transforms drawn(std::uint64_t seed, int draws, double biased) {
  const std::vector<std::vector<double>> kinds{
      {0.5, 0.3, 0.15, 0.05}, {0.3, 0.25, 0.2, 0.15, 0.1}, {0.8, 0.1, 0.06, 0.04}};
  std::mt19937_64 random(seed);
  Transforms transforms(seed + 1'000'000);
  for (int i = 0; i < draws; ++i) {
    const auto& kind = kinds[std::size_t(i) % kinds.size()];
    const auto expected = at_temperature(clean_list(position(kind), 20), 1);
    REQUIRE(expected);
    std::discrete_distribution<int> distribution(kind.begin(), kind.end());
    const bool likeliest = std::generate_canonical<double, 53>(random) < biased;
    transforms.add(*expected, std::string(1, char('a' + (likeliest ? 0 : distribution(random)))));
  }
  return transforms;
}

double p_of(const std::optional<Expected>& expected, std::size_t cell) {
  REQUIRE(expected);
  REQUIRE(cell < expected->cells.size());
  return expected->cells[cell].second;
}

} // namespace

TEST_CASE("fair draws are not flagged, and a bias is found as often as the power says") {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    CHECK_FALSE(drawn(seed, 3000, 0).wrong());
  const double enough = drawn(1, 3000, 0).draws_for(0.99);
  CHECK(drawn(2, 3000, 0).power(enough) >= 0.98);
  const double half = drawn(1, 3000, 0).draws_for(0.5);
  int found = 0;
  int found_half = 0;
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    found += drawn(seed, int(enough), bias).wrong();
    found_half += drawn(seed, int(half), bias).wrong();
  }
  CHECK(found >= 36);     // Fails for one choice of seeds in a million: 40 times 0.99.
  CHECK(found_half >= 6); // Likewise: 40 times 0.5.
  CHECK(found_half <= 34);
}

TEST_CASE("an impossible token is a misfit, whatever else was drawn") {
  Transforms transforms(1);
  const auto expected = at_top_k(clean_list(position({0.4, 0.3, 0.2, 0.1}), 20), 2);
  REQUIRE(expected);
  CHECK(transforms.add(*expected, "a"));
  CHECK_FALSE(transforms.add(*expected, "c"));
  CHECK(transforms.wrong());
}

TEST_CASE("warpers leave what their definitions say, or nothing where the list does not tell") {
  const CleanList list = clean_list(position({0.4, 0.3, 0.15, 0.1}), 20);
  const auto neutral = at_temperature(list, 1);
  CHECK(p_of(neutral, 0) == doctest::Approx(0.4));
  CHECK(neutral->rest == doctest::Approx(0.05));
  const auto colder = at_temperature(list, 0.5); // squares, of the four alone
  CHECK(p_of(colder, 1) == doctest::Approx(0.09 / (0.16 + 0.09 + 0.0225 + 0.01)));
  CHECK_FALSE(colder->rest);
  CHECK(p_of(at_top_p(list, 0.6), 1) == doctest::Approx(0.3 / 0.7));
  CHECK(at_top_p(list, 0.6)->cells.size() == 2);
  CHECK_FALSE(at_top_p(list, 0.7));  // the cut lies at a token's edge
  CHECK_FALSE(at_top_p(list, 0.97)); // and here behind the list
  CHECK(at_top_k(list, 3)->cells.size() == 3);
  CHECK_FALSE(at_top_k(list, 4));
  CHECK(at_min_p(list, 0.3)->cells.size() == 3);
  CHECK_FALSE(at_min_p(list, 0.2)); // the last is as likely as the cut may be
  CHECK_FALSE(at_top_k(clean_list(position({0.3, 0.3, 0.3}), 20), 2)); // a tie
}

TEST_CASE("a list is cut to what was asked for, and what names do not tell apart is left out") {
  Scored scored = position({0.4, 0.3, 0.2});
  CHECK(clean_list(scored, 2).top.size() == 2);
  scored.top[1].first = "a";
  CHECK(clean_list(scored, 20).top.size() == 1);
  CHECK_FALSE(clean_list(scored, 20).named);
  scored = position({0.4, 0.3, 0.2});
  scored.top[2].second = -9999;
  CHECK(clean_list(scored, 20).top.size() == 2);
}

TEST_CASE("answers of both endpoints, whole and streamed, are read alike") {
  const std::string lists = R"({"choices": [{"index": 0, "text": " ab", "finish_reason": "stop",
    "logprobs": {"tokens": [" a", "b"], "token_logprobs": [-1.0, -2], "text_offset": [0, 2],
    "top_logprobs": [{" a": -1.0, "c": -0.5}, null]}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})";
  const std::string content = R"({"choices": [{"message": {"reasoning_content": " a",
    "content": "b"}, "finish_reason": "stop", "logprobs": {"content": [
    {"token": " a", "logprob": -1, "bytes": [32, 97], "top_logprobs": [
      {"token": " a", "logprob": -1}, {"token": "c", "logprob": -0.5}]},
    {"token": "b", "logprob": -2, "top_logprobs": []}]}}]})";
  const std::string stream = "data: {\"choices\": [{\"index\": 0, \"text\": \" a\", \"logprobs\": "
                             "{\"tokens\": [\" a\"], \"token_logprobs\": [-1.0]}}]}\n\n"
                             "data: {\"choices\": [{\"index\": 0, \"text\": \"b\", \"logprobs\": "
                             "{\"tokens\": [\"b\"], \"token_logprobs\": [-2.0]}, "
                             "\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
  for (const Answer& answer : {read_answer(200, lists, false), read_answer(200, content, false),
                               read_answer(200, stream, true)}) {
    REQUIRE(answer.ok());
    CHECK(answer.text() == " ab");
    CHECK(answer.first().finish_reason == "stop");
    REQUIRE(answer.tokens().size() == 2);
    CHECK(answer.tokens()[0].token == " a");
    CHECK(answer.tokens()[1].logprob == -2.0);
  }
  CHECK(read_answer(200, lists, false).tokens()[0].top.front().first == "c");
  CHECK(read_answer(200, lists, false).tokens()[1].offset == 2);
  CHECK(read_answer(200, content, false).tokens()[0].bytes == " a");
  CHECK(read_answer(200, stream, true).ends == 1);
}

TEST_CASE("a prompt counts as echoed only where the tokens make it up") {
  const auto count = [](std::initializer_list<const char*> names) {
    Choice choice;
    for (const char* name : names)
      choice.tokens.push_back({.token = name});
    return choice.echoed("one two");
  };
  CHECK(count({"one", " two", " three"}) == 2);
  CHECK(count({"<s>", "one", " two"}) == 3);
  CHECK_FALSE(count({" three"})); // The server does not know the field, and answers.
  CHECK_FALSE(count({"one", " twofold"}));
  CHECK_FALSE(count({"one"}));
  CHECK_FALSE(count({}));
}

TEST_CASE("whatever else a server sends is no answer, and says why") {
  CHECK(read_answer(400, R"({"error": {"message": "no such field"}})", false).error ==
        "HTTP 400: no such field");
  for (const char* body : {"", "what", "[]", "{}", R"({"choices": []})", R"({"choices": [1]})",
                           R"({"choices": [{"text": 5, "logprobs": [1]}]})",
                           R"({"choices": [{"index": -7, "logprobs": {"tokens": [5]}}]})",
                           R"({"choices": [{"index": 1e308}], "usage": {"prompt_tokens": 1e99}})",
                           R"({"choices": [{"logprobs": {"content": [{"bytes": [-1, 1e9]}]}}]})",
                           R"({"choices": [{"logprobs": {"tokens": ["a"], "text_offset": [1e99],
                             "token_logprobs": ["x"], "top_logprobs": [[1]]}}]})"}) {
    CAPTURE(body);
    const Answer answer = read_answer(200, body, false);
    CHECK((!answer.ok() || answer.text().empty()));
  }
  CHECK_FALSE(read_answer(200, "data: {\"choices\": [{\"text\": \"a\"}]}\n\n", true).ok());
}

TEST_CASE("an answer of very many choices is read once") {
  std::string body = R"({"choices": [{"text": "a"})";
  for (int i = 0; i < 30'000; ++i)
    body += ",0";
  const std::clock_t begun = std::clock();
  CHECK(read_answer(200, body + "]}", false).choices.size() == 1024);
  CHECK(std::clock() - begun < CLOCKS_PER_SEC / 2);
}

TEST_CASE("a count that nobody can have counted is none") {
  const auto counted = [](const std::string& count) {
    return read_answer(200,
                       R"({"choices": [{"text": "a"}], "usage": {"prompt_tokens": )" + count + "}}",
                       false)
        .prompt_tokens;
  };
  CHECK(counted("7") == 7);
  for (const char* wrong : {"-1", "2147483647", "1e12", "0.5", "null"})
    CHECK_FALSE(counted(wrong));
}

TEST_CASE("where a text leaves an answer, the gap is that of its own token") {
  Choice choice;
  for (const char* name : {"ab", "cd"}) {
    Scored token{.token = name, .logprob = -0.7};
    token.top = {{name, -0.7}, {"c", -0.8}, {"ce", -1.5}};
    choice.tokens.push_back(token);
  }
  CHECK(gap_where_left(choice, "abcez") == doctest::Approx(0.8));
  CHECK(gap_where_left(choice, "abcx") == doctest::Approx(0.1));
  CHECK_FALSE(gap_where_left(choice, "abx"));
  CHECK_FALSE(gap_where_left(choice, "abcd"));
}

TEST_CASE("JUnit's XML has a suite for each group, and survives any text") {
  const Check one{"ends", "stop", "", {}};
  const Check other{"seeds", "repeat", "", {}};
  const std::string xml =
      report_junit({{one, {Verdict::fail, "a < \"b\" & \x01", "curl -d '<>'"}, 0.5},
                    {one, {Verdict::pass, "", ""}, 0.25},
                    {other, {Verdict::not_decidable, "who knows", ""}, 0}});
  CHECK(xml.find("<testsuite name=\"ends\" tests=\"2\" failures=\"1\" skipped=\"0\">") !=
        std::string::npos);
  CHECK(xml.find("message=\"a &lt; &quot;b&quot; &amp; ?\">curl -d '&lt;&gt;'</failure>") !=
        std::string::npos);
  CHECK(xml.find("<skipped message=\"who knows\"></skipped>") != std::string::npos);
}
