// What all connections share: the engines, who may ask, how much, and what is to be told.
#pragma once

#include "apps/server/errors.hpp"
#include "apps/server/exchange.hpp"
#include "apps/server/fleet.hpp"
#include "apps/server/keys.hpp"
#include "apps/server/log.hpp"
#include "apps/server/metrics.hpp"
#include "apps/server/request_memory.hpp"
#include "apps/server/settings.hpp"
#include "paceline/engine.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace paceline::apps::serve {

/// Which door a request came through.
enum class Protocol { http, grpc };

/// Threads: the server's only, but for `aside`.
class Service {
public:
  enum class State { loading, ready, draining };

  /// admin: who may load and unload models.
  Service(boost::asio::any_io_executor executor, const Settings& settings, Keys keys, Keys admin);

  const Settings& settings() const { return settings_; }
  const Keys& keys() const { return keys_; }
  const Keys& admin_keys() const { return admin_keys_; }
  void set_keys(Keys keys) { keys_ = std::move(keys); }
  void set_admin_keys(Keys keys) { admin_keys_ = std::move(keys); }
  /// Whose outputs a client's drafts may come from: its own alone, unless the operator shares them.
  std::string draft_scope(std::string holder) const {
    return settings_.share_drafts ? std::string() : std::move(holder);
  }
  /// Whose cached prefixes a client's requests may go on from: as its drafts.
  std::string cache_scope(std::string holder) const {
    return settings_.share_prefix_cache ? std::string() : std::move(holder);
  }
  RequestMemory& memory() { return memory_; }
  Log& log() { return log_; }
  ServerMetrics& metrics() { return metrics_; }
  boost::asio::any_io_executor executor() const { return executor_; }
  std::int64_t started() const { return started_; } ///< Seconds since 1970.

  /// Requests are taken from now on. Before, the fleet has no engine.
  void open();
  State state() const { return state_; }
  /// Requests are taken, and an engine works.
  bool ready() const { return state_ == State::ready && fleet_.well(); }
  /// action: called whenever that may have changed.
  void on_change(std::function<void()> action) { changed_ = std::move(action); }
  Fleet& fleet() { return fleet_; }
  const Fleet& fleet() const { return fleet_; }

  /// From now on new requests are refused. idle: called once when none is being answered any more.
  void drain(std::function<void()> idle);
  /// What still runs is told so.
  void cancel_all();

  /// A number of answers under way, counted until this object goes.
  class Admission {
  public:
    /// cancel: tells them to end.
    Admission(Service& service, std::function<void()> cancel, int count);
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;
    ~Admission();

  private:
    friend class Service;
    Service* service_;
    std::function<void()> cancel_;
    int count_;
  };
  /// When the time that the server gives an answer is over.
  std::chrono::steady_clock::time_point latest(std::chrono::steady_clock::time_point arrived) const;

  /// Why that many more are not possible now.
  std::optional<ApiError> check_room(int count) const;

  /// When a stream that wrote last at this time may write again: the next beat of a clock that all
  /// streams share, so that one wake-up of the server, and of a client with many, serves them all.
  std::chrono::steady_clock::time_point
  next_write(std::chrono::steady_clock::time_point last) const;

  /// Runs `work` on a thread of its own when it is about this many bytes of text, so that other
  /// requests need not wait for it; what it throws comes back here.
  boost::asio::awaitable<void> aside(std::size_t bytes, std::function<void()> work);

  /// Whether the engine can hold answers to the form. It is compiled on a thread of its own, since
  /// strangers choose how long that takes; what is submitted next finds it there.
  boost::asio::awaitable<Result<void>> check_form(const Engine& engine, const Constraint& form);

  /// For the life of one request that is being answered.
  class Answering {
  public:
    explicit Answering(Service& service, Protocol protocol = Protocol::http);
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    ~Answering();

  private:
    Service* service_;
    Protocol protocol_;
  };

  int connections = 0;      ///< Open ones,
  int grpc_connections = 0; ///< and those of them that speak gRPC.
  std::string metrics_text() const;

private:
  boost::asio::any_io_executor executor_;
  Settings settings_;
  Keys keys_;
  Keys admin_keys_;
  Log log_;
  ServerMetrics metrics_;
  Fleet fleet_;
  std::int64_t started_;
  State state_ = State::loading;
  int open_ = 0;      ///< Answers.
  int answering_ = 0; ///< Requests,
  int over_grpc_ = 0; ///< and those of them that came by gRPC.
  std::set<Admission*> running_;
  std::function<void()> idle_;
  std::function<void()> changed_ = [] {};
  boost::asio::thread_pool aside_{1};       ///< For what is short,
  boost::asio::thread_pool aside_long_{1};  ///< for what is long,
  boost::asio::thread_pool aside_forms_{1}; ///< and for forms, which take as long as they are made.
  RequestMemory memory_;
};

} // namespace paceline::apps::serve
