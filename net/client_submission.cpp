#include "net/client_submission.hpp"

#include "net/codec.hpp"
#include "net/limits.hpp"
#include "net/status.hpp"

namespace paceline::net {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns whether a status without an error of the server's is one that a lost connection leaves.
bool is_loss(const grpc::Status& status) {
  switch (status.error_code()) {
  case grpc::RESOURCE_EXHAUSTED:
  case grpc::UNIMPLEMENTED: return false;
  default: return true; // also an answer without its end
  }
}

Error may_have_run(const Error& why) {
  return {ErrorCode::unavailable, why.message,
          "the request may have run: ask again if that does no harm, or submit it with retries"};
}

} // namespace

/// One gRPC call of a submission. It keeps itself alive until gRPC is done with it.
class Submission::Call final : public grpc::ClientReadReactor<v1::GenerateEvent> {
public:
  explicit Call(std::shared_ptr<Submission> of) : of_(std::move(of)) {}

  v1::GenerateRequest request;
  grpc::ClientContext context;

  void start(v1::Paceline::Stub& stub, std::shared_ptr<Call> self) {
    self_ = std::move(self);
    stub.async()->Generate(&context, &request, this);
    StartRead(&event_);
    StartCall();
  }

private:
  /// The metadata of an accepted answer have its id; those of a refused one have not.
  void OnReadInitialMetadataDone(bool ok) override {
    if (ok && context.GetServerInitialMetadata().contains(request_id))
      of_->accepted();
  }
  /// The first event may be reported before the metadata.
  void OnReadDone(bool ok) override {
    if (!ok)
      return;
    of_->accepted();
    of_->happened(event_);
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    of_->over(status);
    self_.reset();
  }

  const std::shared_ptr<Submission> of_;
  std::shared_ptr<Call> self_;
  v1::GenerateEvent event_;
};

Submission::Submission(std::shared_ptr<Route> route, std::uint64_t id, Request request,
                       SubmitOptions options, std::shared_ptr<base::Callbacks> callbacks, Done done)
    : route_(std::move(route)), id_(id), request_(std::move(request)),
      repeats_(options.retries > 0), callbacks_(std::move(callbacks)), done_(std::move(done)),
      retries_(options.retries) {}

void Submission::begin() {
  const auto call = std::make_shared<Call>(shared_from_this());
  Request asked = request_;
  if (asked.deadline) // the server decides how a request ends whose time is over
    *asked.deadline -=
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - submitted_);
  if (auto wrote = write(call->request, asked); !wrote)
    return end(FinishReason::error, std::move(wrote.error()));
  call->request.set_model(route_->options().model);
  route_->introduce(call->context);
  {
    const std::lock_guard lock(mutex_);
    if (over_)
      return;
    call_ = call;
  }
  call->start(route_->stub(), call);
}

void Submission::accepted() {
  Done done;
  std::shared_ptr<Stream::Impl> sink;
  {
    const std::lock_guard lock(mutex_);
    if (sink_ || over_)
      return;
    const auto cancel = [kept = std::weak_ptr(route_), id = id_] {
      if (const auto route = kept.lock())
        route->cancel(id);
    };
    sink = sink_ = std::make_shared<Stream::Impl>(id_, cancel, callbacks_);
    done = std::exchange(done_, nullptr);
  }
  done(Stream(std::move(sink)));
}

void Submission::happened(const v1::GenerateEvent& message) {
  auto event = read(message);
  if (!event)
    return end(FinishReason::error, std::move(event.error()));
  bool same = true;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (over_)
      return;
    same = !repeats_ || replay_.pass(*event);
    if (const auto* delta = std::get_if<Delta>(&*event))
      tokens_ += int(delta->tokens.size());
    last = over_ = same && std::holds_alternative<Finished>(*event);
    if (same && sink_ && !Replay::empty(*event))
      sink_->deliver(std::move(*event));
  }
  if (!same)
    return end(FinishReason::error,
               Error{ErrorCode::unavailable,
                     "after the connection was lost the server answers something else",
                     "the server or its settings changed: ask again from the beginning"});
  if (last)
    route_->forget(id_);
}

void Submission::over(const grpc::Status& status) {
  const auto refused = told_by(status);
  const bool lost = !refused && is_loss(status);
  Error error = refused ? *refused : error_of(status, route_->place());
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    call_.reset();
    again = lost && !over_ && retries_ > 0;
    retries_ -= again;
    replay_.rewind();
  }
  if (again)
    route_->reach(id_, shared_from_this());
  else
    end(FinishReason::error, lost ? may_have_run(error) : std::move(error));
}

void Submission::end(FinishReason reason, std::optional<Error> error) {
  Done done;
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true))
      return;
    done = std::exchange(done_, nullptr);
    call = std::exchange(call_, nullptr);
    if (!done) {
      Finished end;
      end.reason = reason;
      if (reason == FinishReason::error)
        end.error = std::move(error);
      end.usage.completion_tokens = tokens_;
      sink_->deliver(std::move(end));
    }
  }
  route_->forget(id_);
  if (call)
    call->context.TryCancel();
  if (done)
    done(tl::unexpected(std::move(*error)));
}

} // namespace paceline::net
