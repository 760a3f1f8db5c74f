// The server's side of a call that gets a stream.
#pragma once

#include "apps/server/service.hpp"
#include "apps/server/watchdog.hpp"
#include "net/paceline.grpc.pb.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>

namespace paceline::apps::serve {

/// The caller, as the call's metadata describe it.
struct GrpcCaller {
  explicit GrpcCaller(const grpc::CallbackServerContext& context);

  std::string peer;
  std::string id;            ///< The client's name of the request (x-request-id), or one of ours.
  std::string authorization; ///< "Bearer KEY"
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  std::optional<std::chrono::milliseconds> time_left; ///< Time until the call's own deadline.
};

/// A stream of messages. One message is written at a time; until a client has taken it, the next is
/// not made. Threads: the server's; gRPC's own only post to it.
class GrpcStream final : public grpc::ServerWriteReactor<v1::GenerateEvent>,
                         public std::enable_shared_from_this<GrpcStream> {
public:
  GrpcStream(Service& service, grpc::CallbackServerContext& context);

  /// Keeps itself alive until gRPC is done with it.
  void keep(std::shared_ptr<GrpcStream> self) { self_ = std::move(self); }

  const GrpcCaller& caller() const { return caller_; }
  /// Whether the client has left, or was cut off.
  bool gone() const { return gone_; }
  /// action: called once when the client has gone, or at once if it has; null: nothing is called.
  void on_gone(std::function<void()> action);

  /// Adds the request's id to what is sent next, which tells the client that there will be an
  /// answer.
  void accept();
  /// Sends that at once.
  void tell_accepted() { StartSendInitialMetadata(); }
  boost::asio::awaitable<void> write(v1::GenerateEvent event);
  /// Ends the call, once; returns when all is sent, or the client is gone.
  boost::asio::awaitable<void> finish(v1::GenerateEvent last, grpc::Status status);
  boost::asio::awaitable<void> finish(grpc::Status status);

private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  boost::asio::awaitable<void> sent();
  void leave();
  void cut_off();

  Service& service_;
  const GrpcCaller caller_;
  std::shared_ptr<GrpcStream> self_;
  std::shared_ptr<Watchdog> taking_;
  boost::asio::steady_timer news_; ///< Never expires; cancelled when the write under way is done.
  v1::GenerateEvent event_;
  bool under_way_ = false;
  bool finished_ = false;
  bool gone_ = false;
  std::function<void()> on_gone_;
  std::mutex mutex_;
  grpc::CallbackServerContext* context_; ///< Null when gRPC is done with the call.
};

} // namespace paceline::apps::serve
