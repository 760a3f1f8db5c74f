// The state that all connections share: the engines, the keys, the bounds, the log and the metrics.
#pragma once

#include "apps/server/errors.hpp"
#include "apps/server/exchange.hpp"
#include "apps/server/fleet.hpp"
#include "apps/server/keys.hpp"
#include "apps/server/log.hpp"
#include "apps/server/metrics.hpp"
#include "apps/server/request_memory.hpp"
#include "apps/server/settings.hpp"
#include "base/admission.hpp"
#include "paceline/engine.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace paceline::apps::serve {

/// The protocol of the port that a request came through.
enum class Protocol { http, grpc };

/// The state that all connections share. Threads: the server's only, except in `aside`.
class Service {
public:
  enum class State { loading, ready, draining };

  /// admin: keys of those who may load and unload models.
  Service(boost::asio::any_io_executor executor, const Settings& settings, Keys keys, Keys admin);

  const Settings& settings() const { return settings_; }
  const Keys& keys() const { return keys_; }
  const Keys& admin_keys() const { return admin_keys_; }
  void set_keys(Keys keys) { keys_ = std::move(keys); }
  void set_admin_keys(Keys keys) { admin_keys_ = std::move(keys); }
  /// Returns the scope of the outputs that a client's drafts may come from: its own alone, unless
  /// the operator shares them.
  std::string draft_scope(std::string holder) const {
    return settings_.share_drafts ? std::string() : std::move(holder);
  }
  /// Returns the scope of the cached prefixes that a client's requests may use: its own alone,
  /// unless the operator shares them.
  std::string cache_scope(std::string holder) const {
    return settings_.share_prefix_cache ? std::string() : std::move(holder);
  }
  RequestMemory& memory() { return memory_; }
  Log& log() { return log_; }
  ServerMetrics& metrics() { return metrics_; }
  boost::asio::any_io_executor executor() const { return executor_; }
  std::int64_t started() const { return started_; } ///< Seconds since 1970.

  /// Takes requests from now on. Before, the fleet has no engine.
  void open();
  State state() const { return state_; }
  /// Whether requests are taken and an engine works.
  bool ready() const { return state_ == State::ready && fleet_.well(); }
  /// action: called whenever `ready` may have changed.
  void on_change(std::function<void()> action) { changed_ = std::move(action); }
  Fleet& fleet() { return fleet_; }
  const Fleet& fleet() const { return fleet_; }

  /// Refuses new requests from now on. idle: called once when none is being answered any more.
  void drain(std::function<void()> idle);
  /// Cancels all answers that still run.
  void cancel_all();

  /// A request that was let in, which counts with all of its answers until it leaves or this object
  /// ends: first until an engine is found, then until the last answer has ended.
  class Admission {
  public:
    Admission(Service& service, base::Admission::Place place);
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;
    ~Admission();

    /// Finds the engine that answers, perhaps after a while.
    boost::asio::awaitable<ApiResult<Fleet::Turn>>
    turn(std::string model, std::chrono::steady_clock::time_point arrived);
    /// Tells the request to end.
    void cancel();
    /// Lets another request in, because all answers have ended: before the client hears of it,
    /// since it may ask again at once.
    void leave() { place_.leave(); }
    /// action: ends the answers; called at once where the request was cancelled before.
    void on_cancel(std::function<void()> action);
    /// Returns what is left of the time that the server allows for an answer, waiting included;
    /// none: it sets no limit.
    std::optional<std::chrono::milliseconds> time_left() const;

  private:
    Service* service_;
    base::Admission::Place place_;
    std::chrono::steady_clock::time_point latest_;
    std::function<void()> action_;
    bool cancelled_ = false;
  };
  /// Lets a request with that many answers in, or says why there is no room for it. The door of
  /// all protocols: it alone knows the requests that no engine has yet.
  ApiResult<std::unique_ptr<Admission>> admit(int count);

  /// Returns when a stream that wrote last at this time may write again: the next beat of a clock
  /// that all streams share, so that one wake-up of the server, and of a client with many, serves
  /// them all.
  std::chrono::steady_clock::time_point
  next_write(std::chrono::steady_clock::time_point last) const;

  /// Runs `work`, which handles about this many bytes of text. If they are many, another thread
  /// does it, so that other requests need not wait; its exceptions come back here.
  boost::asio::awaitable<void> aside(std::size_t bytes, std::function<void()> work);

  /// Checks whether the engine can hold answers to the form. A thread of its own compiles it, since
  /// strangers choose how long that takes; a request that is submitted next finds it there.
  boost::asio::awaitable<Result<void>> check_form(const Engine& engine, const Constraint& form);

  /// Counts one request as being answered while this object lives.
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

  int connections = 0;      ///< Open connections.
  int timeline_readers = 0; ///< Clients that read the timeline.
  int grpc_connections = 0; ///< Open connections that speak gRPC.
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
  base::Admission door_; ///< Counts answers, of requests that have no engine yet, too.
  int answering_ = 0;    ///< Requests that are being answered.
  int over_grpc_ = 0;    ///< Requests that are being answered and came by gRPC.
  std::set<Admission*> running_;
  std::function<void()> idle_;
  std::function<void()> changed_ = [] {};
  boost::asio::thread_pool aside_{1};       ///< Runs short work.
  boost::asio::thread_pool aside_long_{1};  ///< Runs long work.
  boost::asio::thread_pool aside_forms_{1}; ///< Compiles forms, which may take any time.
  RequestMemory memory_;
};

} // namespace paceline::apps::serve
