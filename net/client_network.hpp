// A client's view of its server: the channel to it, and the operations that wait for it.
#pragma once

#include "base/own_process.hpp"
#include "net/client_submission.hpp"
#include "paceline/client.hpp"

#include <atomic>
#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <map>
#include <mutex>
#include <random>

namespace paceline {

/// The connection that a client's operations share. Threads: any; callbacks run on gRPC's threads,
/// or on the caller's.
class Client::Network : public net::Route, public std::enable_shared_from_this<Client::Network> {
public:
  explicit Network(ClientOptions options);

  std::uint64_t next_operation() { return ++operations_; }
  void connect(std::uint64_t id, Done<ServerInfo> done);
  void health(std::uint64_t id, Done<ServerHealth> done);
  void submit(std::uint64_t id, Request request, SubmitOptions options, Done<Stream> done);
  void cancel(std::uint64_t id) override;
  /// Ends all operations.
  void close();
  /// Returns false in a forked child, where no other member may be called.
  bool in_its_process() const { return process_.here(); }

  const ClientOptions& options() const override { return options_; }
  std::string place() const override;
  v1::Paceline::Stub& stub() override { return *stub_; }
  void introduce(grpc::ClientContext& context) const override;
  void reach(std::uint64_t id, const std::shared_ptr<net::Submission>& one) override;
  void forget(std::uint64_t id) override;

private:
  using Answer = Result<v1::ModelsReply>;
  using Told = std::function<void(const Answer&)>;
  struct Waiting {
    Told told;
    bool for_ready = false; ///< Waits for a server that is ready, after the connection was lost.
  };
  struct Probe {
    grpc::ClientContext context;
    v1::ModelsRequest request;
    v1::ModelsReply reply;
  };

  struct Settled {
    std::vector<Told> told;                         ///< Operations to be told the answer.
    std::vector<Told> given_up;                     ///< Operations to be told why there is none.
    std::optional<std::chrono::milliseconds> pause; ///< Pause until the next attempt.
  };

  void await_connection(std::uint64_t id, Waiting one);
  void probe();
  void probed(const grpc::Status& status, const v1::ModelsReply& reply);
  Settled settle(const Answer& answer, bool refused);

  const base::OwnProcess process_;
  const ClientOptions options_;
  const std::shared_ptr<base::Callbacks> callbacks_ = std::make_shared<base::Callbacks>();
  std::optional<Error> unusable_; ///< The reason why there is no channel.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Paceline::Stub> stub_;
  std::atomic<std::uint64_t> operations_{0};

  std::mutex mutex_; ///< Guards all below; nobody is called while it is held.
  bool closed_ = false;
  std::map<std::uint64_t, std::shared_ptr<net::Submission>> submissions_;
  std::map<std::uint64_t, Waiting> waiting_; ///< Waiting operations, by their id.
  bool probing_ = false;
  std::shared_ptr<Probe> probe_; ///< The probe under way.
  grpc::Alarm resting_;          ///< Runs until the next probe.
  bool ever_ = false;            ///< There was a connection once.
  int failures_ = 0;             ///< Failed attempts in a row.
  std::chrono::milliseconds pause_;
  std::mt19937_64 chance_{std::random_device{}()};
};

} // namespace paceline
