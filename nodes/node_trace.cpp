#include "nodes/node_trace.hpp"

#include "nodes/peer.hpp"

#include <cstdlib>
#include <utility>

namespace paceline::nodes {

using namespace messages;

namespace {

/// Whether the time is far from where sums overflow.
bool possible(base::TimePoint time) {
  constexpr auto most = base::Duration(std::int64_t(1) << 60).count(); // 36 years
  return std::abs(time.time_since_epoch().count() / 2) < most / 2;
}

} // namespace

bool NodeTrace::asks(base::TimePoint now) {
  if (!trace_ || !trace_->wanted() || asked_)
    return false;
  asked_ = now;
  return true;
}

void NodeTrace::take(const ClockRead& answer, base::TimePoint now) {
  check_peer(asked_.has_value(), "it says what its clock shows, and nobody has asked");
  check_peer(possible(answer.now), "its clock cannot show that");
  clock_.observe(*std::exchange(asked_, std::nullopt), answer.now, now);
  trace_->set_clock(node_, *clock_.estimate(now));
}

void NodeTrace::take(const NodeSpans& news, base::TimePoint now) {
  const auto clock = clock_.estimate(now);
  if (!clock) // Nobody has asked, or the node has not answered.
    return;
  for (const NodeSpan& span : news.spans) {
    check_peer(possible(span.begin) && possible(base::TimePoint(span.length)),
               "what it did cannot have been then");
    const base::TimePoint begin = clock->here(span.begin);
    trace_->span_there(node_, one_line(span.row), one_line(span.name), begin, begin + span.length);
  }
}

} // namespace paceline::nodes
