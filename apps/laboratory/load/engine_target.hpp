// A load on an engine in this process.
#pragma once

#include "apps/laboratory/load/target.hpp"
#include "paceline/engine.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::apps::load {

class EngineTarget final : public Target {
public:
  enum class Time { real, virtual_clock };

  /// engine: must outlive this. request: each request without prompt and length. time: the
  /// engine's.
  EngineTarget(Engine& engine, Request request, Time time);
  ~EngineTarget() override;

  void begin_run() override;
  double now() const override;
  void send(std::size_t item, const Item& what) override;
  std::optional<Event> next(std::optional<double> until) override;
  void wake() override;
  void cancel() override;
  std::optional<TargetState> state() override;

private:
  bool collect();
  void take(std::size_t item, const paceline::Event& event);
  void await_news(std::optional<double> until);

  Engine& engine_;
  Request request_;
  Time time_;
  int runs_ = 0;
  std::map<std::size_t, Stream> streams_; ///< Streams by item.
  std::deque<Event> events_;              ///< Collected and not taken yet.

  /// News from other threads.
  struct Bell {
    void ring(std::size_t item);
    void wake();
    std::vector<std::size_t> take_items();
    bool take_waked();

    std::mutex mutex;
    std::condition_variable rung;
    std::vector<std::size_t> items; ///< Items whose streams may have events.
    bool waked = false;             ///< Whether somebody called `wake`.
  };
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>(); // Shared with the streams' callbacks.
};

} // namespace paceline::apps::load
