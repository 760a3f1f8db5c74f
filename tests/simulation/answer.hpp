// What a simulated request got, and what has to be true of it.
#pragma once

#include "base/event_sink.hpp"
#include "tests/simulation/workload.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

struct SimulatedAnswer {
  const Job* job = nullptr;
  Expected expected;
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<Finished> ends;
  int scores = 0;
  bool late = false; ///< Something came behind the end.

  /// Adds what does not hold.
  void check(std::vector<std::string>& failures) const;
};

/// Fills an answer in, which must outlive it. ended: told of each end before that is kept.
std::shared_ptr<base::EventSink> make_sink(SimulatedAnswer& answer,
                                           std::function<void(const Finished&)> ended);

} // namespace paceline::testing
