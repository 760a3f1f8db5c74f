// The output of a request, which gets an end whatever becomes of the engine.
#pragma once

#include "base/admission.hpp"
#include "base/event_sink.hpp"

#include <memory>
#include <new>
#include <utility>

namespace paceline::actors {

/// The sink that the facade is given. If it is destroyed before the request's end, together with
/// its last holder (a message that nobody took, for example), it delivers an end. The place is
/// given back before the end is delivered. Threads: one at a time.
class RequestSink final : public base::EventSink {
public:
  explicit RequestSink(std::shared_ptr<base::EventSink> sink, base::Admission::Place place = {})
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
    } catch (const std::bad_alloc&) { // Nobody has the stream yet: `submit` has failed.
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
  base::Admission::Place place_;
  Finished last_words_; ///< Made ahead, because memory may be lacking when it is delivered.
  bool ended_ = false;
};

} // namespace paceline::actors
