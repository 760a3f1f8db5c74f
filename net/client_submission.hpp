// One request of a client: its call, or several calls one after another.
#pragma once

#include "base/stream.hpp"
#include "net/client_replay.hpp"
#include "net/paceline.grpc.pb.h"
#include "paceline/client.hpp"

#include <mutex>

namespace paceline::net {

class Submission;

/// The way to a server, as submissions need it. Threads: any.
class Route {
public:
  virtual ~Route() = default;
  virtual const ClientOptions& options() const = 0;
  /// Names the server, for messages.
  virtual std::string place() const = 0;
  virtual v1::Paceline::Stub& stub() = 0;
  /// Puts into a call's metadata what the server requires.
  virtual void introduce(grpc::ClientContext& context) const = 0;
  /// Begins the submission as soon as there is a connection, or ends it with the reason why there
  /// is none.
  virtual void reach(std::uint64_t id, const std::shared_ptr<Submission>& one) = 0;
  virtual void cancel(std::uint64_t id) = 0;
  virtual void forget(std::uint64_t id) = 0;
};

/// One request and its calls. It ends only once, however often its members are called. Threads:
/// any.
class Submission : public std::enable_shared_from_this<Submission> {
public:
  using Done = std::function<void(Result<Stream>)>;

  Submission(std::shared_ptr<Route> route, std::uint64_t id, Request request, SubmitOptions options,
             std::shared_ptr<base::Callbacks> callbacks, Done done);

  /// Starts a call; there is a connection.
  void begin();
  /// Tells the caller, whichever way it waits, and the server that nothing more comes.
  void end(FinishReason reason, std::optional<Error> error);

private:
  class Call;
  void accepted();
  void happened(const v1::GenerateEvent& message);
  void over(const grpc::Status& status);

  const std::shared_ptr<Route> route_;
  const std::uint64_t id_;
  const Request request_;
  const std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();
  const bool repeats_; ///< The request may be asked for again, so its answer is remembered.
  const std::shared_ptr<base::Callbacks> callbacks_;

  std::mutex mutex_; ///< Guards all below.
  Done done_;        ///< Called when the server accepts or refuses; null after that.
  std::shared_ptr<Stream::Impl> sink_; ///< Receives the events once the server has accepted.
  std::shared_ptr<Call> call_;
  Replay replay_;
  int retries_;
  int tokens_ = 0; ///< Tokens delivered.
  bool over_ = false;
};

} // namespace paceline::net
