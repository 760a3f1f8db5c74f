// The engine on real threads without its public face, so that a test may get hold of its actors.
#pragma once

#include "actors/opening.hpp"
#include "actors/system/runtime.hpp"
#include "base/event_sink.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace paceline::testing {

/// One request's answer, filled in by the engine's threads. Threads: any.
class LiveAnswer final : public base::EventSink {
public:
  /// came: told of every event, from a thread of the engine.
  explicit LiveAnswer(std::function<void(const Event&)> came = {}) : came_(std::move(came)) {}
  void deliver(Event event) override;

  bool ended() const;
  /// Waits for the end.
  const Finished& wait();
  std::size_t count() const;
  /// Once it has ended.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<Finished>& ends() const { return ends_; }

private:
  std::function<void(const Event&)> came_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<TokenId> tokens_;
  std::vector<Finished> ends_;
};

/// The parts that a supervisor starts again.
enum class Part { scheduler, draft, target, sampler, kv_cache };
inline constexpr int parts = 5;
const char* to_string(Part part);

class LiveEngine {
public:
  /// supervised: else nobody watches the actors.
  explicit LiveEngine(const EngineOptions& options, bool supervised = true);
  ~LiveEngine();
  LiveEngine(const LiveEngine&) = delete;
  LiveEngine& operator=(const LiveEngine&) = delete;

  void submit(const Request& request, std::shared_ptr<LiveAnswer> answer);
  std::shared_ptr<LiveAnswer> submit(const Request& request);
  void cancel(std::uint64_t request);
  std::uint64_t last_request() const { return requests_; }
  /// Kills who is that part now; null: there is none. Threads: any.
  std::function<void()> aim(Part part);
  /// False: there is none just now. (One that has just died may be killed again, to no effect.)
  bool kill(Part part);
  /// Returns the metrics, with the cache manager's books as they are now.
  Metrics metrics();

private:
  messages::ActorHandles handles();
  void start();
  void start_unsupervised();

  std::unique_ptr<actors::Runtime> runtime_;
  actors::EngineContext opened_;
  messages::SupervisorActor supervisor_;
  messages::ActorHandles known_; ///< Unsupervised, for ever; else the facade is what counts.
  std::uint64_t requests_ = 0;
};

} // namespace paceline::testing
