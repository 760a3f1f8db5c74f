#include "sampling/stop.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::sampling;

namespace {

/// The whole text at once: where it ends and why, as decoding byte by byte would have found.
struct Ending {
  std::string text;
  std::optional<std::string> stop;
};

Ending oracle(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string* found = nullptr;
    for (const auto& stop : stops)
      if (!stop.empty() && stop.size() <= end &&
          text.compare(end - stop.size(), stop.size(), stop) == 0 &&
          (!found || stop.size() > found->size()))
        found = &stop;
    if (found)
      return {text.substr(0, end - found->size()), *found};
  }
  return {text, std::nullopt};
}

/// Length of the longest end of `text` that could become a stop string.
std::size_t could_become(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const auto& stop : stops)
    for (std::size_t n = 1; n < stop.size() && n <= text.size(); ++n)
      if (text.compare(text.size() - n, n, stop, 0, n) == 0)
        longest = std::max(longest, n);
  return longest;
}

std::string random_text(std::mt19937& random, std::size_t length) {
  std::string text(length, 'a');
  for (char& c : text)
    c = "ab\xC3"[random() % 3];
  return text;
}

} // namespace

TEST_CASE("Stops are found and text is held back as the whole text decides, however it is cut") {
  std::mt19937 random(1);
  int stopped = 0;
  int inside_piece = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::string> stops;
    for (unsigned n = random() % 4; n > 0; --n)
      stops.push_back(random_text(random, random() % 6));
    const std::string text = random_text(random, random() % 30);
    const auto expected = oracle(text, stops);

    StopMatcher matcher(stops);
    std::string shown;
    std::optional<std::string> stop;
    std::size_t fed = 0;
    while (fed < text.size() && !stop) {
      const std::size_t n = std::min<std::size_t>(random() % 5, text.size() - fed);
      const auto step = matcher.feed(text.substr(fed, n));
      fed += n;
      shown += step.text;
      stop = step.stop;
      inside_piece += stop && shown.size() + stop->size() < fed;
      if (!stop) {
        const std::string so_far = text.substr(0, fed);
        CHECK(shown.size() == fed - could_become(so_far, stops));
      }
    }
    if (!stop)
      shown += matcher.finish();
    stopped += stop.has_value();
    CHECK(shown == expected.text);
    CHECK(stop == expected.stop);
  }
  CHECK(stopped > 3000);
  CHECK(inside_piece > 1000);
}

TEST_CASE("The stop string that is complete first ends the text, the longest of those") {
  StopMatcher nested({"abcd", "bc"});
  const auto first = nested.feed("xabcd");
  CHECK((first.text == "xa" && first.stop == "bc"));
  StopMatcher suffix({"c", "abc"});
  const auto longest = suffix.feed("xabc");
  CHECK((longest.text == "x" && longest.stop == "abc"));
}

TEST_CASE("Stops that may not end the text yet are text, and one that ends later counts") {
  StopMatcher stops({"aba", "xy"});
  CHECK(stops.feed("xyab", false).text == "xy");
  auto step = stops.feed("a", false);
  CHECK(step.text == "ab"); // what is left may begin another one
  CHECK_FALSE(step.stop);
  step = stops.feed("ba");
  CHECK(step.text.empty());
  CHECK(step.stop == "aba");
}

TEST_CASE("Without stop strings every byte is shown at once") {
  StopMatcher none;
  CHECK(none.feed("abc").text == "abc");
  StopMatcher empty({""});
  CHECK(empty.feed("abc").text == "abc");
  CHECK_FALSE(empty.feed("d").stop.has_value());
  CHECK(empty.finish().empty());
}

TEST_CASE("What only looked like a stop string is shown in the end") {
  StopMatcher matcher({"END"});
  CHECK(matcher.feed("the EN").text == "the ");
  CHECK(matcher.feed("").text.empty());
  CHECK(matcher.feed("E").text == "EN");
  CHECK(matcher.finish() == "E");
}

TEST_CASE("A run of tokens is cut exactly where decoding one by one would have ended") {
  const TokenId ends[] = {2, 9};
  const auto cut = [&](std::vector<TokenId> tokens, std::size_t budget) {
    return cut_at_end(tokens, ends, budget);
  };
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    std::vector<TokenId> tokens(random() % 8);
    for (auto& t : tokens)
      t = TokenId(random() % 12);
    const std::size_t budget = random() % 8;
    Cut expected{0, false, budget == 0};
    for (TokenId t : tokens) {
      if (expected.end_of_text || expected.length)
        break;
      ++expected.keep;
      expected.end_of_text = t == 2 || t == 9;
      expected.length = !expected.end_of_text && expected.keep == budget;
    }
    const auto got = cut(tokens, budget);
    CHECK(got.keep == expected.keep);
    CHECK(got.end_of_text == expected.end_of_text);
    CHECK(got.length == expected.length);
  }
  CHECK((cut({1, 2}, 2).end_of_text && !cut({1, 2}, 2).length)); // end of text takes precedence
  CHECK((cut({1, 3, 2}, 2).length && cut({1, 3, 2}, 2).keep == 2));
  CHECK((!cut({1}, 2).length && !cut({}, 1).length));
}
