// A request's way out, which ends whatever becomes of the engine.
#pragma once

#include "actors/admission.hpp"
#include "base/event_sink.hpp"

#include <memory>
#include <new>
#include <utility>

namespace paceline::actors {

/// What the facade is given: dropped before the request's end, with whoever held it last (a
/// message that nobody took, say), it delivers one. Who hears of the end finds the place free.
/// Threads: one at a time.
class RequestSink final : public base::EventSink {
public:
  explicit RequestSink(std::shared_ptr<base::EventSink> sink, Admission::Place place = {})
      : sink_(std::move(sink)), place_(std::move(place)) {
    last_words_.reason = FinishReason::error;
    last_words_.error = Error{ErrorCode::unavailable, "the engine has ended",
                              "a part of it kept failing; open another one"};
  }
  ~RequestSink() override {
    if (ended_)
      return;
    try {
      deliver(std::move(last_words_));
    } catch (const std::bad_alloc&) { // a stream that nobody has yet: `submit` is what failed
    }
  }
  RequestSink(const RequestSink&) = delete;
  RequestSink& operator=(const RequestSink&) = delete;

  void deliver(Event event) override {
    if (std::holds_alternative<Finished>(event)) {
      ended_ = true;
      place_.leave();
    }
    sink_->deliver(std::move(event));
  }

private:
  std::shared_ptr<base::EventSink> sink_;
  Admission::Place place_;
  Finished last_words_; ///< Made ahead: it is said where memory may be what is lacking.
  bool ended_ = false;
};

} // namespace paceline::actors
