// A caller who keeps what it is sent, and what a scheduler would send it.
#pragma once

#include "base/event_sink.hpp"
#include "scheduling/commits.hpp"
#include "tests/support/engine_fixture.hpp"

#include <utility>
#include <vector>

namespace paceline::testing {

class Recorder final : public base::EventSink {
public:
  void deliver(Event event) override { answer.add(std::move(event)); }
  bool ended() const { return !answer.ends.empty(); }
  Answer answer;
};

/// What the scheduler says of tokens first, first + 1, ...
inline scheduling::Committed news(scheduling::SequenceId id, int first, std::vector<TokenId> tokens,
                                  bool last = false) {
  scheduling::Committed news;
  news.sequence = id;
  news.first = first;
  news.sources.assign(tokens.size(), TokenSource::target);
  news.tokens = std::move(tokens);
  news.length = last;
  return news;
}

} // namespace paceline::testing
