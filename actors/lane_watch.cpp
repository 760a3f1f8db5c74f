// The public LaneWatch over the trace.
#include "actors/engine.hpp"

#include <utility>

namespace paceline {

class LaneWatch::Impl {
public:
  Impl(std::shared_ptr<base::Trace> trace, base::TimePoint opened)
      : trace_(std::move(trace)), opened_(opened) {
    trace_->watch(queue_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { trace_->unwatch(queue_); }

  std::vector<LaneSpan> take() {
    std::vector<LaneSpan> spans;
    for (base::LaneWork& work : queue_->take())
      spans.push_back({std::move(work.lane), std::move(work.name), work.begin - opened_,
                       work.end - opened_, std::move(work.args)});
    return spans;
  }
  std::uint64_t lost() const { return queue_->lost(); }

private:
  std::shared_ptr<base::Trace> trace_;
  base::TimePoint opened_;
  std::shared_ptr<base::LaneWorkQueue> queue_ =
      std::make_shared<base::LaneWorkQueue>(base::limits::watched_spans_max);
};

LaneWatch::LaneWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LaneWatch::LaneWatch(LaneWatch&&) noexcept = default;
LaneWatch& LaneWatch::operator=(LaneWatch&&) noexcept = default;
LaneWatch::~LaneWatch() = default;
std::vector<LaneSpan> LaneWatch::take() {
  return impl_->take();
}
std::uint64_t LaneWatch::lost() const {
  return impl_->lost();
}

LaneWatch Engine::Impl::watch_lanes() const {
  return LaneWatch(std::make_unique<LaneWatch::Impl>(trace_, opened_));
}
LaneWatch Engine::watch_lanes() const {
  return impl_->watch_lanes();
}

} // namespace paceline
