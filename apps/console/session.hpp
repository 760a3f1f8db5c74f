// An engine opened for a person who waits for it, and one request followed to its end.
#pragma once

#include "paceline/engine.hpp"

#include <functional>

namespace paceline::apps {

/// An open engine, and the real time that took.
struct Session {
  Engine engine;
  double load_seconds = 0;
};

enum class SimulatedTime { virtual_clock, real_clock };

/// Shows progress while models load. time: of simulated devices; a real clock lets a person see how
/// fast they are, and other threads cancel requests.
Result<Session> open_session(EngineOptions options,
                             SimulatedTime time = SimulatedTime::virtual_clock);

/// Reads the stream to its end. show: called with each delta as it comes; may be empty. A request
/// that failed is an error; one that was cancelled is not.
Result<Completion> follow(Stream& stream, const std::function<void(const Delta&)>& show = {});

/// Engine::complete, where only a whole answer is of use: one that failed on its way is an error.
Result<Completion> answer_of(Engine& engine, const Request& request);

/// Ends the engine, which writes its trace now. A trace that could not be written is an error.
Result<void> close_engine(Engine& engine);

/// Tokens per second after the first one; 0 where there were fewer than two.
double decode_rate(const Finished& end);

} // namespace paceline::apps
