// Look-ups: what has stood in a text before, and what came then.
#include "speculation/lookup/ngram_drafter.hpp"
#include "speculation/lookup/recent_outputs.hpp"
#include "speculation/lookup/suffix_automaton.hpp"
#include "speculation/lookup/suffix_drafter.hpp"

#include <doctest/doctest.h>
#include <stdexcept>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace paceline;
using namespace paceline::speculation;

namespace {

using Tokens = std::vector<TokenId>;

Tokens random_text(std::uint64_t seed, std::size_t length, int words) {
  std::mt19937_64 random(seed);
  Tokens text;
  for (std::size_t i = 0; i < length; ++i)
    text.push_back(TokenId(random() % std::uint64_t(words)));
  return text;
}

/// The longest end of `text` that also stands in `known`; by trying.
int longest_end(const Tokens& known, const Tokens& text) {
  for (auto length = std::ptrdiff_t(std::min(known.size(), text.size())); length > 0; --length)
    if (std::search(known.begin(), known.end(), text.end() - length, text.end()) != known.end())
      return int(length);
  return 0;
}

std::set<TokenId> tokens_behind(const Tokens& known, const Tokens& end) {
  std::set<TokenId> behind;
  for (auto at = known.begin();; ++at) {
    at = std::search(at, known.end(), end.begin(), end.end());
    if (known.end() - at <= std::ptrdiff_t(end.size()))
      return behind;
    behind.insert(at[std::ptrdiff_t(end.size())]);
  }
}

Tokens last(const Tokens& text, int count) {
  return {text.end() - count, text.end()};
}

/// Greedy: of weights the heaviest.
class Task final : public DraftTask {
public:
  Task(std::uint64_t sequence, Tokens committed, int wanted, Tokens drafted = {})
      : sequence_(sequence), context_(std::move(committed)), committed_(context_.size()),
        wanted_(wanted) {
    context_.insert(context_.end(), drafted.begin(), drafted.end());
    given_ = context_.size();
  }
  std::uint64_t sequence() const override { return sequence_; }
  std::span<const TokenId> context() const override { return context_; }
  std::size_t committed() const override { return committed_; }
  int wanted() const override { return wanted_; }
  double chance_wanted() const override { return chance; }
  void propose(TokenId token) override {
    REQUIRE(wanted_-- > 0);
    context_.push_back(token);
  }
  TokenId draw(std::span<const TokenWeight> weights) override {
    q.emplace_back(weights.begin(), weights.end());
    propose(std::ranges::max_element(weights, {}, &TokenWeight::weight)->token);
    return context_.back();
  }
  TokenId draw(std::span<const float>) override { throw std::logic_error("no look-up has rows"); }
  Tokens proposed() const { return {context_.begin() + std::ptrdiff_t(given_), context_.end()}; }

  std::vector<std::vector<TokenWeight>> q;
  double chance = 0;

private:
  std::uint64_t sequence_;
  Tokens context_;
  std::size_t committed_;
  int wanted_;
  std::size_t given_ = 0;
};

Tokens ask(Drafter& drafter, Task task) {
  DraftTask* const tasks[] = {&task};
  drafter.propose(tasks);
  return task.proposed();
}

DraftedSequence named(std::uint64_t id, std::string scope = {}) {
  return {id, std::move(scope), {}};
}

/// `text` three times over, so that long matches are known to be right.
Tokens thrice(const Tokens& text) {
  Tokens all;
  for (int i = 0; i < 3; ++i)
    all.insert(all.end(), text.begin(), text.end());
  return all;
}

} // namespace

TEST_CASE("an automaton finds the longest end that has come before, and all that came behind it") {
  for (const int words : {2, 3, 10}) {
    CAPTURE(words);
    const Tokens text = random_text(std::uint64_t(words), 300, words);
    SuffixAutomaton automaton;
    Tokens known;
    std::vector<TokenWeight> behind;
    for (const TokenId token : text) {
      automaton.append(token);
      known.push_back(token);
      const Tokens before(known.begin(), known.end() - 1);
      const SuffixAutomaton::Place place = automaton.repeated();
      REQUIRE(place.length == longest_end(before, known));
      REQUIRE(automaton.followers(place, 64, behind) == place.length);
      std::set<TokenId> tokens;
      for (const TokenWeight& of : behind)
        tokens.insert(of.token);
      if (place.length > 0)
        REQUIRE(tokens == tokens_behind(known, last(known, place.length)));
      else
        REQUIRE(tokens.empty());
    }
  }
}

TEST_CASE("a text's end is followed through an automaton of others while that grows") {
  std::mt19937_64 random(5);
  SuffixAutomaton automaton;
  Tokens known; // -1 between texts
  Tokens text;
  SuffixAutomaton::Place place;
  for (int i = 0; i < 400; ++i) {
    for (int k = 0; k < int(random() % 3); ++k) {
      if (random() % 10 == 0) {
        automaton.separate();
        known.push_back(-1);
      }
      known.push_back(TokenId(random() % 3));
      automaton.append(known.back());
    }
    // What came to stand there meanwhile may make it a longer end than is known.
    text.push_back(TokenId(random() % 3));
    const int at_most = longest_end(known, text);
    place = automaton.follow(place, text.back());
    REQUIRE(place.length <= at_most);
    if (place.length > 0)
      REQUIRE(longest_end(known, last(text, place.length)) == place.length);
  }
  SuffixAutomaton::Place fresh;
  for (std::size_t i = 0; i < text.size(); ++i) {
    fresh = automaton.follow(fresh, text[i]);
    REQUIRE(fresh.length ==
            longest_end(known, {text.begin(), text.begin() + std::ptrdiff_t(i + 1)}));
  }
}

TEST_CASE("counts say how often a token came behind a match, and of equal ones the latest leads") {
  SuffixAutomaton automaton;
  for (const TokenId token : {1, 2, 7, 1, 2, 8, 1, 2, 8, 1, 2})
    automaton.append(token);
  std::vector<TokenWeight> behind;
  automaton.followers(automaton.follow(automaton.follow({}, 1), 2), 64, behind);
  REQUIRE(behind.size() == 2);
  CHECK(behind[0].token == 8);
  CHECK(behind[0].weight > behind[1].weight);
  SuffixAutomaton even;
  for (const TokenId token : {1, 7, 1, 8, 1})
    even.append(token);
  even.followers(even.repeated(), 64, behind);
  REQUIRE(behind.size() == 2);
  CHECK(behind[0].token == 8);
}

TEST_CASE("an automaton has at most two states and three edges for each token") {
  SuffixAutomaton automaton;
  for (const TokenId token : random_text(1, 20'000, 3))
    automaton.append(token);
  CHECK(automaton.bytes() < 20'000 * 2 * (2 * 12 + 3 * 24 + 4 * 8));
}

TEST_CASE("suffix goes on as the text did before, as far as matches have been right") {
  SuffixDrafter drafter(1 << 20);
  const Tokens passage = random_text(3, 40, 1000);
  const Tokens text = thrice(passage);
  drafter.begin(named(1), Tokens(text.begin(), text.begin() + 60));
  const Tokens known(text.begin(), text.begin() + 60);
  CHECK(ask(drafter, {1, known, 8}) == Tokens(text.begin() + 60, text.begin() + 68));
  // It goes on behind what is drafted already.
  const Tokens drafted(text.begin() + 60, text.begin() + 63);
  CHECK(ask(drafter, {1, known, 4, drafted}) == Tokens(text.begin() + 63, text.begin() + 67));
  Tokens elsewhere = known;
  elsewhere.push_back(5000);
  CHECK(ask(drafter, {1, elsewhere, 8}).empty());
}

TEST_CASE(
    "suffix stops where matches turn out to be wrong, and goes on when they are right again") {
  SuffixDrafter drafter(1 << 20);
  std::mt19937_64 random(11);
  Tokens text = random_text(4, 2, 50);
  drafter.begin(named(1), text);
  int late_proposals = 0;
  for (int i = 0; i < 1000; ++i) { // pairs of words come again and say nothing
    text.push_back(TokenId(random() % 50));
    if (i >= 500)
      late_proposals += !ask(drafter, {1, text, 4}).empty();
  }
  CHECK(late_proposals < 25);
  const Tokens again(text.end() - 200, text.end());
  int right = 0;
  for (std::size_t i = 0; i < again.size(); ++i) {
    const Tokens proposed = ask(drafter, {1, text, 4});
    right += !proposed.empty() && proposed.front() == again[i];
    text.push_back(again[i]);
  }
  CHECK(right > 150);
}

TEST_CASE("suffix leaves to others what is less likely to come true than they are wanted to be") {
  SuffixDrafter drafter(1 << 20);
  const Tokens text = thrice(random_text(5, 20, 100));
  drafter.begin(named(1), {});
  Task task(1, text, 8);
  CHECK(ask(drafter, task).size() == 8);
  task.chance = 0.6;
  CHECK(ask(drafter, task).size() == 8); // forty tokens were right
  task.chance = 1;
  CHECK(ask(drafter, task).empty());
}

TEST_CASE("what suffix proposes does not know the token that is predicted") {
  // Whatever is committed next, the proposal before it was the same.
  const Tokens text = random_text(9, 200, 4);
  for (const TokenId next : {0, 1, 2, 3}) {
    SuffixDrafter told(1 << 20);
    SuffixDrafter untold(1 << 20);
    told.begin(named(1), text);
    untold.begin(named(1), text);
    CHECK(ask(told, {1, text, 6}) == ask(untold, {1, text, 6}));
    Tokens longer = text;
    longer.push_back(next);
    ask(told, {1, longer, 6});
  }
}

TEST_CASE("outputs of a scope serve that scope alone") {
  SuffixDrafter drafter(1 << 20);
  const Tokens output = random_text(6, 50, 1000);
  Tokens whole{1, 2, 3};
  drafter.begin(named(1, "a"), whole);
  whole.insert(whole.end(), output.begin(), output.end());
  drafter.end(1, whole);

  const Tokens begun(output.begin(), output.begin() + 10);
  for (const char* scope : {"a", "b", ""}) {
    CAPTURE(std::string(scope));
    drafter.begin(named(2, scope), {});
    const Tokens proposed = ask(drafter, {2, begun, 5});
    if (std::string(scope) == "a")
      CHECK(proposed == Tokens(output.begin() + 10, output.begin() + 15));
    else
      CHECK(proposed.empty());
    drafter.end(2, {});
  }
}

TEST_CASE("prompts are not kept for others") {
  SuffixDrafter drafter(1 << 20);
  const Tokens prompt = random_text(6, 50, 1000);
  drafter.begin(named(1), prompt);
  drafter.end(1, prompt);
  drafter.begin(named(2), {});
  CHECK(ask(drafter, {2, Tokens(prompt.begin(), prompt.begin() + 10), 5}).empty());
}

TEST_CASE("recent outputs keep to their memory, and the oldest go first") {
  constexpr std::size_t memory = 1 << 18;
  RecentOutputs outputs(memory);
  std::vector<RecentOutputs::Place> places;
  const auto found = [&](const Tokens& text) {
    places.clear();
    outputs.refresh("", places);
    int longest = 0;
    for (const RecentOutputs::Place& place : places) {
      SuffixAutomaton::Place in;
      for (const TokenId token : text)
        in = outputs.book(place.book)->follow(in, token);
      longest = std::max(longest, in.length);
    }
    return longest;
  };
  for (std::uint64_t i = 0; i < 100; ++i) {
    outputs.add("", random_text(100 + i, 100, 1 << 30));
    CHECK(outputs.bytes() <= memory);
    CHECK(found(random_text(100 + i, 100, 1 << 30)) == 100);
  }
  CHECK(found(random_text(100, 100, 1 << 30)) == 0);
  for (int scope = 0; scope < 1000; ++scope)
    outputs.add(std::to_string(scope), random_text(1, 20, 1000));
  CHECK(outputs.bytes() <= memory);
}

TEST_CASE("a long text costs suffix no more than its share of the memory") {
  SuffixDrafter drafter(1 << 18);
  const Tokens text = random_text(8, 50'000, 1 << 30);
  drafter.begin(named(1), text);
  Tokens again = text;
  again.insert(again.end(), text.end() - 300, text.end() - 200);
  CHECK(ask(drafter, {1, again, 4}) == Tokens(text.end() - 200, text.end() - 196));
}

TEST_CASE("ngram proposes what followed the last three tokens the last time") {
  NgramDrafter drafter;
  const Tokens text{1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3};
  drafter.begin(named(1), text);
  CHECK(ask(drafter, {1, text, 4}) == Tokens{5, 9, 1, 2});
  CHECK(ask(drafter, {1, text, 9}) == Tokens{5, 9, 1, 2, 3, 5, 9, 1, 2}); // round and round
  CHECK(ask(drafter, {1, text, 2, {5, 9}}) == Tokens{1, 2});
  drafter.begin(named(2), Tokens{1, 2, 3});
  CHECK(ask(drafter, {2, {1, 2, 3}, 4}).empty());
  CHECK(ask(drafter, {2, {1, 2, 3, 4, 5}, 4}).empty());
}
