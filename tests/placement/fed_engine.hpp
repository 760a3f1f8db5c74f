// Requests as the simulator has them, for real engines: of one token each is one pass over all of
// its prompt, and no pass has two prompts.
#pragma once

#include "apps/laboratory/load/engine_target.hpp"
#include "paceline/engine.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

/// An engine that answers them, and what is under way there. Times are seconds of its clock.
class FedEngine {
public:
  using Time = apps::load::EngineTarget::Time;

  /// devices: a stage on each. tokens: of a prompt. Throws where the engine cannot be opened.
  FedEngine(std::string target, std::vector<std::string> devices, int tokens, int output_tokens,
            Time time)
      : tokens_(tokens), output_tokens_(output_tokens),
        engine_(open(std::move(target), std::move(devices), tokens, time)),
        target_(engine_, endless(), time) {}

  /// The requests are numbered from 0 on in the order in which they are sent.
  std::size_t send() {
    const std::size_t number = items_.size();
    items_.push_back({.arrival = 0, .prompt = prompt(number), .max_tokens = output_tokens_});
    target_.send(number, items_.back());
    ++under_way_;
    return number;
  }
  /// The next request that ends, and when it does; none: `until` came first, or none is under way.
  std::optional<std::pair<std::size_t, double>> next_end(std::optional<double> until = {}) {
    while (under_way_ > 0 || until) {
      const auto event = target_.next(until);
      if (!event)
        return std::nullopt;
      if (event->kind == apps::load::Event::Kind::failed)
        throw std::runtime_error(event->reason);
      if (event->kind == apps::load::Event::Kind::done) {
        --under_way_;
        return std::pair(event->item, event->seconds);
      }
    }
    return std::nullopt;
  }
  double now() const { return target_.now(); }

private:
  static Engine open(std::string target, std::vector<std::string> devices, int tokens, Time time) {
    EngineOptions options;
    options.target = std::move(target);
    options.drafters = {"none"};
    options.devices = std::move(devices);
    options.prefill_chunk = tokens;
    options.max_waiting = 10'000;
    options.virtual_time = time == Time::virtual_clock;
    auto engine = Engine::open(std::move(options));
    if (!engine)
      throw std::runtime_error(engine.error().text());
    return std::move(*engine);
  }
  static Request endless() {
    Request request;
    request.ignore_eos = true;
    return request;
  }
  /// Begins with its number, so that it finds nothing of another one in the prefix cache.
  std::vector<TokenId> prompt(std::size_t number) const {
    std::vector<TokenId> ids(std::size_t(tokens_), 1);
    for (std::size_t i = 0; i < std::min<std::size_t>(ids.size(), 8); ++i, number /= 16)
      ids[i] = TokenId(number % 16);
    return ids;
  }

  int tokens_;
  int output_tokens_;
  std::deque<apps::load::Item> items_;
  std::size_t under_way_ = 0;
  Engine engine_;
  apps::load::EngineTarget target_;
};

} // namespace paceline::testing
