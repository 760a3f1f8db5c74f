// Strings of bounded length: their masks, which are worked out when they are asked for.
#include "constraints/bounded_strings.hpp"
#include "tests/constraints/forms.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace paceline;
using namespace paceline::testing;

namespace {

std::string schema_of(int least, int most) {
  return fmt::format(R"({{"type": "string", "minLength": {}, "maxLength": {}}})", least, most);
}

/// Number of bytes that a character has by its first one; 0: none begins like this.
int length_of(unsigned char first) {
  return first < 0x80   ? 1
         : first < 0xc2 ? 0
         : first < 0xe0 ? 2
         : first < 0xf0 ? 3
         : first < 0xf5 ? 4
                        : 0;
}

/// Whether the second byte of a character may come behind the first: no surrogates, no other
/// spellings of shorter characters.
bool may_follow(unsigned char first, unsigned char second) {
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

/// Whether some JSON string of `least` to `most` characters without escapes begins with the text.
bool begins_a_string(std::string_view text, int least, int most) {
  if (text.empty())
    return true;
  if (text[0] != '"')
    return false;
  int characters = 0;
  for (std::size_t n = 1; n < text.size();) {
    const auto first = static_cast<unsigned char>(text[n]);
    if (first == '"')
      return characters >= least && n + 1 == text.size();
    const int length = length_of(first);
    if (length == 0 || first < 0x20 || first == '\\' || ++characters > most)
      return false;
    for (int k = 1; k < length && n + std::size_t(k) < text.size(); ++k) {
      const auto next = static_cast<unsigned char>(text[n + std::size_t(k)]);
      if (k == 1 ? !may_follow(first, next) : (next & 0xc0) != 0x80)
        return false;
    }
    n += std::size_t(length);
  }
  return true;
}

/// Looks at every token of the vocabulary behind a text that was encoded as a whole.
void check_all_tokens(const Forms& forms, const sampling::Constraint& form, const std::string& text,
                      int least, int most) {
  const std::vector<TokenId> output = forms.tokenizer().encode(text, false);
  sampling::TokenMask mask;
  const bool restricted = form.next({output, 0, {}}, mask);
  int wrong = 0;
  for (TokenId token = 3; token < forms.tokenizer().vocabulary(); ++token) {
    const std::string bytes = forms.tokenizer().bytes(token);
    const bool fits = !bytes.empty() && begins_a_string(text + bytes, least, most);
    wrong += fits != (!restricted || sampling::allows(mask, token));
  }
  CHECK_MESSAGE(wrong == 0, wrong << " tokens behind " << text);
}

/// A toy automaton: "a" to "c" any number of times, then perhaps one "é".
struct Edge {
  int min, max, target;
  bool IsCharRange() const { return min >= 0; }
};
struct Automaton {
  std::map<int, std::vector<Edge>> edges;
  const std::vector<Edge>& GetEdges(int state) const { return edges.at(state); }
};

using Masks = std::unordered_map<int, std::string>;

} // namespace

TEST_CASE("a bounded string takes those tokens that some string within its bounds goes on with") {
  Forms forms;
  const struct { int least, most; } bounds[] = {{0, 5}, {2, 3}, {0, 24}, {3, 200}, {0, 1024}};
  for (const auto [least, most] : bounds) {
    const auto form = forms.compile(Constraint::Kind::json_schema, schema_of(least, most));
    REQUIRE_MESSAGE(form, form.error().text());
    for (const int left : {most, most / 2, 9, 4, 3, 2, 1, 0})
      if (left <= most)
        for (const char* character : {"x", "é"})
          check_all_tokens(forms, **form, '"' + repeated(character, most - left), least, most);
  }
}

TEST_CASE("characters are counted, and no one more is allowed, whatever the bound") {
  Forms forms;
  const int states = constraints::limits::string_states_max;
  for (const int most : {128, 129, states, states + 1}) {
    const auto form = forms.compile(Constraint::Kind::json_schema, schema_of(1, most));
    REQUIRE_MESSAGE(form, form.error().text());
    CHECK(!forms.holds(**form, R"("")"));
    CHECK(forms.holds(**form, '"' + repeated("ü", most) + '"'));
    CHECK(!forms.holds(**form, '"' + repeated("ü", most + 1) + '"'));
  }
}

TEST_CASE("several bounded strings may be begun at once") {
  Forms forms;
  const auto form = forms.compile(Constraint::Kind::json_schema,
                                  R"({"anyOf": [{"type": "string", "minLength": 3, "maxLength": 3},
                                               {"type": "string", "minLength": 5, "maxLength": 6}]})");
  REQUIRE_MESSAGE(form, form.error().text());
  for (const int length : {2, 3, 4, 5, 6, 7})
    CHECK(forms.holds(**form, '"' + repeated("x", length) + '"') ==
          (length == 3 || length == 5 || length == 6));
}

TEST_CASE("only the expression of a bounded string is one") {
  using namespace paceline::constraints;
  CHECK(is_bounded_string(bounded_string(0, 24)));
  CHECK(is_bounded_string(bounded_string(2, -1)));
  CHECK(!is_bounded_string(bounded_string(0, 24) + "{200}"));
  CHECK(!is_bounded_string(R"("[^"\\\x00-\x1f]{0,24})"));
  CHECK(!is_bounded_string("a{0,24}"));
  CHECK(!is_bounded_string(bounded_string(0, limits::string_states_max + 1)));
  CHECK(!is_bounded_string(bounded_string(limits::string_states_max + 1, -1)));
  CHECK(!is_bounded_string(bounded_string(-1, 3)));
}

TEST_CASE("bytes are followed through an automaton, in any order of tokens") {
  const Automaton automaton{
      {{0, {{'a', 'c', 0}, {0xc3, 0xc3, 1}}}, {1, {{0xa9, 0xa9, 2}}}, {2, {}}}};
  constraints::ByteWalk walk(automaton, 0);
  const std::vector<std::string> takes = {"", "a", "abc", "abcé", "b", "c", "cé", "é", "\xc3"};
  const std::vector<std::string> refuses = {"abd",  "abda",     "x",        "xa",
                                            "éa",   "éaa",      "éé",       "éé again",
                                            "\xa9", "\xa9\xa9", "\xc3\xa8", "\xc3\xa8\xa8"};
  for (std::size_t n = 0; n < takes.size(); ++n) {
    CHECK_MESSAGE(walk.takes(takes[n]), takes[n]);
    for (const std::string& token : refuses)
      CHECK_MESSAGE(!walk.takes(token), token);
    CHECK_MESSAGE(walk.takes(takes[takes.size() - 1 - n]), takes[takes.size() - 1 - n]);
  }
}

TEST_CASE("masks are kept while there is room, and are right without") {
  const auto room = std::make_shared<constraints::MaskRoom>(2);
  const Masks ready = {{7, "ready"}};
  int worked_out = 0;
  const auto later_masks = [&] {
    const constraints::MaskRoom::Use use(room);
    auto masks = std::make_unique<constraints::LaterMasks<Masks>>();
    masks->work_out = [&worked_out](int state) {
      ++worked_out;
      return fmt::format("mask {}", state);
    };
    return masks;
  };
  auto first = later_masks();
  CHECK(first->find(ready, 7)->second == "ready");
  CHECK(worked_out == 0);
  for (int round = 0; round < 2; ++round)
    for (const int state : {1, 2, 3})
      CHECK(first->find(ready, state)->second == fmt::format("mask {}", state));
  CHECK(worked_out == 4); // the third one was not kept
  CHECK(room->full());
  const auto second = later_masks();
  CHECK(second->find(ready, 1)->second == "mask 1");
  const auto held = first->find(ready, 1);
  first.reset();
  CHECK(held->second == "mask 1");
  CHECK(!room->full());
  CHECK(constraints::LaterMasks<Masks>().find(ready, 1) == nullptr);
}
