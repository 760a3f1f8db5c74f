// What a client's own thread does: keeps a connection, and knows who waits for what.
#pragma once

#include "base/own_process.hpp"
#include "base/stream.hpp"
#include "net/client_link.hpp"
#include "net/client_replay.hpp"
#include "paceline/client.hpp"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <random>
#include <unordered_map>

namespace paceline {

/// Threads: members before `run` from any thread, the others on the one that runs it.
class Client::Network : public std::enable_shared_from_this<Client::Network> {
public:
  explicit Network(ClientOptions options);

  std::uint64_t next_operation() { return ++operations_; }
  void connect(std::uint64_t id, Done<ServerInfo> done);
  void health(std::uint64_t id, Done<ServerHealth> done);
  void submit(std::uint64_t id, Request request, SubmitOptions options, Done<Stream> done);
  void cancel(std::uint64_t id);
  /// Ends everything, and then `run`.
  void close();

  void run() { io_.run(); }
  /// False in a forked child, where only this may be asked.
  bool in_its_process() const { return process_.here(); }

private:
  using Clock = std::chrono::steady_clock;
  using Number = net::RequestNumber;
  struct One {
    Request request;
    int retries = 0;
    Done<Stream> done{};                  ///< Until the server has accepted or refused.
    std::shared_ptr<Stream::Impl> sink{}; ///< From then on.
    Number number = 0;                    ///< On this connection; 0: waits for one.
    std::uint64_t place = 0;              ///< Where its frame ends in what the connection sends.
    net::Replay replay{};
    Clock::time_point submitted = Clock::now();
    bool repeats = false;   ///< It may be asked for again: its answer is remembered.
    bool cancelled = false; ///< By its caller, who waits for an end no more than the server does.
  };
  using Requests = std::map<std::uint64_t, One>;

  boost::asio::awaitable<void> maintain();
  boost::asio::awaitable<Result<ServerInfo>> attempt();
  boost::asio::awaitable<void> pause(std::chrono::milliseconds about);
  void want_connection();
  void connected();
  void lost(const Error& why);
  void give_up(const Error& why);
  void send(std::uint64_t id, One& one);
  void send(const net::ToServer& message);
  Result<std::string> frame_of(Number number, const One& one) const;

  void take(net::ToClient message);
  void accepted(Number number);
  void refused(Number number, Error error);
  void happened(Number number, Event event);
  void pong(const net::Pong& pong);
  void finish(Requests::iterator at, FinishReason reason, std::optional<Error> error);
  void cancel_here(std::uint64_t id);
  Requests::iterator find(Number number);

  const base::OwnProcess process_;
  ClientOptions options_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer resting_;
  std::atomic<std::uint64_t> operations_{0};
  std::mt19937_64 chance_{std::random_device{}()};

  const std::shared_ptr<base::Callbacks> callbacks_ = std::make_shared<base::Callbacks>();
  std::shared_ptr<net::ClientLink> link_;
  std::uint64_t frame_bytes_max_ = 0;
  std::optional<ServerInfo> server_; ///< While there is a connection.
  bool maintained_ = false;          ///< `maintain` runs.
  bool closed_ = false;
  Number newest_ = 0;
  Requests requests_; ///< By operation.
  std::unordered_map<Number, std::uint64_t> operation_of_;
  std::map<std::uint64_t, Done<ServerInfo>> connecting_;
  std::map<std::uint64_t, Done<ServerHealth>> asking_;
};

} // namespace paceline
