#include "tests/nodes/draft_lies.hpp"

#include "speculation/limits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace paceline::testing {

using namespace std::chrono_literals;
using messages::Drafted;
using messages::DraftedTokens;
using messages::DraftFrom;
using messages::OpenedFork;

Lie of_chain(LieOfChain lie, Behind behind) {
  return [lie = std::move(lie), behind, last = 0u](Frame& said, const Asked& asked) mutable {
    auto news = said.as<Drafted>();
    if (!news)
      return false;
    if (behind == Behind::nothing)
      std::erase_if(news->chains, [&](const DraftedTokens& chain) { return chain.chain <= last; });
    const auto lied = std::ranges::find_if(news->chains, [&](DraftedTokens& chain) {
      const auto from = asked.find(chain.sequence);
      return from != asked.end() && from->second.chain == chain.chain && !from->second.reads &&
             chain.chain > last && lie(chain, from->second);
    });
    if (lied != news->chains.end())
      last = lied->chain;
    set(said, *news);
    return lied != news->chains.end();
  };
}

Lie of_window(std::function<void(DraftedTokens&)> lie, Behind behind) {
  return of_chain(
      [lie = std::move(lie)](DraftedTokens& said, const DraftFrom&) {
        if (said.tokens.empty())
          return false;
        lie(said);
        return true;
      },
      behind);
}

int length_of(const DraftFrom& asked) {
  return asked.known + int(asked.tokens.size());
}
std::uint32_t attempt_of(int frontier, int number) {
  return std::uint32_t(frontier) | std::uint32_t(number) << speculation::limits::frontier_bits;
}

namespace {

/// One that could be, by a number that the honest node gives to none.
OpenedFork possible_fork(const DraftFrom& asked, int number = speculation::limits::forks_max) {
  return {attempt_of(length_of(asked), number), 0, 2, 7};
}

Lie of_opened(std::function<void(OpenedFork&, const DraftFrom&)> lie) {
  return of_chain([lie = std::move(lie)](DraftedTokens& said, const DraftFrom& asked) {
    lie(said.opened.emplace_back(possible_fork(asked)), asked);
    return true;
  });
}

/// Returns a lie about a fork that is opened with it, and could be.
Lie of_fork(std::function<void(messages::DraftedFork&)> lie) {
  return of_chain([lie = std::move(lie)](DraftedTokens& said, const DraftFrom& asked) {
    said.opened.push_back(possible_fork(asked));
    lie(said.forks.emplace_back(messages::DraftedFork{possible_fork(asked).attempt, {1, 2}, {}}));
    return true;
  });
}

/// Returns a lie about a fork's rows: as many as there are tokens, all certain of one.
Lie of_fork_rows(std::function<void(messages::DraftedFork&)> lie) {
  return of_fork([lie = std::move(lie)](messages::DraftedFork& said) {
    said.q = {{{1, 1.0f}}, {{2, 1.0f}}};
    lie(said);
  });
}

Lie behind(const std::function<void(Frame&)>& lie) {
  return of_kind(nodes::FrameKind::Drafted, lie);
}
template <class Value>
Lie also(const Value& value) {
  return behind([value](Frame& said) { append(said, value); });
}

} // namespace

std::vector<NamedLie> lies_of_drafts() {
  const messages::DraftedGuesses guess{{1, 2}, 3};
  const auto guesses = [guess](DraftedTokens& said) {
    said.guesses.assign(said.tokens.size(), guess);
  };
  return {
      {"a window elsewhere", of_window([](auto& said) { ++said.first; })},
      {"a window before that", of_window([](auto& said) { --said.first; })},
      {"a window nowhere", of_window([](auto& said) { said.first = -5; })},
      {"more tokens than were asked for", of_window([](auto& said) {
         said.tokens.resize(speculation::limits::chain_positions, 1);
         said.guesses.clear();
       })},
      {"a window twice", behind([](Frame& said) { append(said, *said.as<Drafted>()); })},
      {"a token below all", of_window([](auto& said) { said.tokens.front() = -1; })},
      {"a token above all", of_window([](auto& said) { said.tokens.back() = demo_vocabulary; })},
      {"too few guesses",
       of_window([guess](auto& said) { said.guesses.assign(said.tokens.size() + 1, guess); })},
      {"more guesses than there may be", of_window([guesses](auto& said) {
         guesses(said);
         said.guesses.back().tokens.assign(std::size_t(sampling::limits::guesses_max) + 1, 1);
       })},
      {"a guess of nothing", of_window([guesses](auto& said) {
         guesses(said);
         said.guesses.back().tokens.back() = demo_vocabulary;
       })},
      {"a margin of no class", of_window([guesses](auto& said) {
         guesses(said);
         said.guesses.back().margin_class = 255;
       })},

      {"a fork without a number",
       of_opened([](auto& fork, auto& asked) { fork.attempt = attempt_of(length_of(asked), 0); })},
      {"a fork of too large a number", of_opened([](auto& fork, auto& asked) {
         fork.attempt = attempt_of(length_of(asked), speculation::limits::forks_max + 1);
       })},
      {"more forks than there may be", of_chain([](auto& said, auto& asked) {
         const int frontiers = length_of(asked) - asked.start + 1;
         if (frontiers < 3)
           return false;
         constexpr int most = speculation::limits::forks_max; // the honest node's are few
         for (int fork = 0; fork <= most; ++fork)
           said.opened.push_back({attempt_of(asked.start + fork % 3, most - fork / 3), 0, 2, 7});
         return true;
       })},
      {"a fork of a frontier before the chain", of_opened([](auto& fork, auto& asked) {
         fork.attempt = attempt_of(asked.start - 1, speculation::limits::forks_max);
       })},
      {"a fork of a frontier that is to come", of_opened([](auto& fork, auto& asked) {
         fork.attempt = attempt_of(asked.limit - 1, speculation::limits::forks_max);
       })},
      {"a fork behind all that was asked for",
       of_opened([](auto& fork, auto&) { fork.behind = 255; })},
      {"a fork of no tokens", of_opened([](auto& fork, auto&) { fork.length = 0; })},
      {"a fork without end", of_opened([](auto& fork, auto&) { fork.length = 255; })},
      {"a fork behind a token below all", of_opened([](auto& fork, auto&) { fork.token = -1; })},
      {"a fork behind a token above all",
       of_opened([](auto& fork, auto&) { fork.token = demo_vocabulary; })},
      {"a fork twice", of_chain([](auto& said, auto& asked) {
         said.opened.assign(2, possible_fork(asked));
         return true;
       })},
      {"more of a fork than was said", of_fork([](auto& fork) { fork.tokens.push_back(3); })},
      {"a fork's token below all", of_fork([](auto& fork) { fork.tokens.front() = -1; })},
      {"a fork's token above all",
       of_fork([](auto& fork) { fork.tokens.back() = demo_vocabulary; })},
      {"a fork's tokens twice", of_chain([](auto& said, auto& asked) {
         said.opened.push_back(possible_fork(asked));
         said.forks.assign(2, {possible_fork(asked).attempt, {1, 2}, {}});
         return true;
       })},

      {"a pass that took less than nothing", behind([](Frame& said) {
         auto news = *said.as<Drafted>();
         news.step = -1h;
         set(said, news);
       })},
      {"a pass that took for ever", behind([](Frame& said) {
         auto news = *said.as<Drafted>();
         news.step = base::Duration::max();
         set(said, news);
       })},
      {"a clock that nobody asked for", also(messages::ClockRead{})},
      {"what is said of stages", also(messages::StageDone{7, std::string(64, 'x'), {}})},
      {"what an engine says", also(messages::Ping{})},
      {"a refusal in the middle",
       also(messages::Refused{{ErrorCode::unavailable, "\x1b[2Jno\nmore", ""}, false})},
  };
}

namespace {

/// CAF does not write an infinite float, and reads one: it takes the place of this one.
constexpr float marked = 0.123456f;
Lie with_infinity(Lie lie) {
  return [lie = std::move(lie)](Frame& said, const Asked& asked) {
    if (!lie(said, asked))
      return false;
    const auto big_endian = [](float value) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      return std::array{char(bits >> 24), char(bits >> 16), char(bits >> 8), char(bits)};
    };
    const auto infinity = big_endian(std::numeric_limits<float>::infinity());
    const auto at = std::ranges::search(said.bytes, big_endian(marked));
    if (at.empty())
      return false;
    std::ranges::copy(infinity, at.begin());
    return true;
  };
}

} // namespace

std::vector<NamedLie> lies_of_rows() {
  const auto first = [](auto change) {
    return of_window([change](DraftedTokens& said) { change(said.q.front().front()); });
  };
  return {
      {"no rows", of_window([](auto& said) { said.q.clear(); })},
      {"a row more than tokens", of_window([](auto& said) { said.q.push_back(said.q.front()); })},
      {"a row of a token below all", first([](auto& of) { of.token = -1; })},
      {"a row of a token above all", first([](auto& of) { of.token = demo_vocabulary; })},
      {"less than no chance", first([](auto& of) { of.probability = -0.5f; })},
      {"a chance without end", with_infinity(first([](auto& of) { of.probability = marked; }))},
      {"no rows of a fork", of_fork_rows([](auto& fork) { fork.q.clear(); })},
      {"a row of a fork too many", of_fork_rows([](auto& fork) {
         fork.q.push_back({{1, 1.0f}});
       })},
      {"a fork's row of a token above all",
       of_fork_rows([](auto& fork) { fork.q.front().front().token = demo_vocabulary; })},
  };
}

std::vector<NamedLie> lies_that_harm_nobody() {
  const auto another = [](auto change) {
    return behind([change](Frame& said) {
      auto news = *said.as<Drafted>();
      for (DraftedTokens& chain : news.chains) {
        chain.tokens.assign(4, 1);
        chain.opened.clear();
        chain.forks.clear();
        change(chain);
      }
      append(said, news);
    });
  };
  return {
      {"another sequence's window", another([](auto& said) { said.sequence += 1000; })},
      {"a window of a chain that is over", another([](auto& said) { said.chain -= 1; })},
      {"a window of a chain to come", another([](auto& said) { said.chain += 1000; })},
      {"other tokens than the draft's", of_window(
                                            [](auto& said) {
                                              for (TokenId& token : said.tokens)
                                                token = (token + 1) % demo_vocabulary;
                                            },
                                            Behind::the_rest)},
      {"what was read, and nobody asked", another([](auto& said) {
         said.tokens.clear();
         said.read = true;
       })},
      {"tokens of a fork that was not opened",
       of_chain(
           [](auto& said, auto& asked) {
             said.forks.push_back({possible_fork(asked).attempt, {1, 2}, {}});
             return true;
           },
           Behind::the_rest)},
      {"tokens of a fork that has ended", of_chain(
                                              [](auto& said, auto& asked) {
                                                const auto attempt = possible_fork(asked).attempt;
                                                said.opened.push_back(possible_fork(asked));
                                                said.forks.push_back({attempt, {}, {}});
                                                said.forks.push_back({attempt, {1, 2}, {}});
                                                return true;
                                              },
                                              Behind::the_rest)},
      {"it is open, once more", also(messages::DraftOpened{})},
      {"spans of no trace",
       also(messages::NodeSpans{{{"row", "name", base::TimePoint::max(), 1h}}, 3})},
  };
}

} // namespace paceline::testing
