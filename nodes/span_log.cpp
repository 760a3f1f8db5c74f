#include "nodes/span_log.hpp"

#include "nodes/limits.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::nodes {

using messages::NodeSpan;
using messages::NodeSpans;

void SpanLog::add(NodeSpan span) {
  const std::lock_guard lock(mutex_);
  if (spans_.spans.size() >= limits::node_spans_held) {
    ++spans_.dropped;
    return;
  }
  span.begin = by_its_clock(span.begin);
  spans_.spans.push_back(std::move(span));
}

NodeSpans SpanLog::take() {
  const std::lock_guard lock(mutex_);
  NodeSpans taken;
  taken.dropped = std::exchange(spans_.dropped, 0);
  const auto count = std::min(spans_.spans.size(), limits::node_spans_sent);
  const auto end = spans_.spans.begin() + std::ptrdiff_t(count);
  taken.spans.assign(std::move_iterator(spans_.spans.begin()), std::move_iterator(end));
  spans_.spans.erase(spans_.spans.begin(), end);
  return taken;
}

namespace {

class LoggedStep final : public gpu::Step {
public:
  LoggedStep(std::shared_ptr<SpanLog> log, std::string row, std::shared_ptr<gpu::Step> step)
      : log_(std::move(log)), row_(std::move(row)), step_(std::move(step)) {}

  std::string name() const override { return step_->name(); }
  Next prepare(base::TimePoint now) override {
    begin_ = now;
    return step_->prepare(now);
  }
  bool prepare_behind(base::TimePoint now) override { return step_->prepare_behind(now); }
  gpu::Work work() const override { return step_->work(); }
  bool in_shards() const override { return step_->in_shards(); }
  void run(gpu::Operations& operations) override { step_->run(operations); }
  void complete(base::TimePoint now) override {
    if (log_->begun())
      log_->add({row_, step_->name(), begin_, now - begin_});
    begin_ = now; // A piece that stood ready behind this one begins now.
    step_->complete(now);
  }
  void retire(const gpu::Retirement& how) override { step_->retire(how); }

private:
  std::shared_ptr<SpanLog> log_;
  std::string row_;
  std::shared_ptr<gpu::Step> step_;
  base::TimePoint begin_;
};

} // namespace

std::shared_ptr<gpu::Step> logged(std::shared_ptr<SpanLog> log, std::string row,
                                  std::shared_ptr<gpu::Step> step) {
  return std::make_shared<LoggedStep>(std::move(log), std::move(row), std::move(step));
}

} // namespace paceline::nodes
