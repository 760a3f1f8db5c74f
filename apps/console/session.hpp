// An engine for a person who waits for it, and one request followed to its end.
#pragma once

#include "paceline/engine.hpp"

#include <functional>

namespace paceline::apps {

/// An open engine, and the real time that opening took.
struct Session {
  Engine engine;
  double load_seconds = 0;
};

enum class SimulatedTime { virtual_clock, real_clock };

/// Opens an engine, and shows progress while models load. time: the clock of simulated devices; a
/// real clock lets a person see how fast they are, and lets other threads cancel requests.
Result<Session> open_session(EngineOptions options,
                             SimulatedTime time = SimulatedTime::virtual_clock);

/// Reads the stream to its end. show: called with each delta as it comes; may be empty. A request
/// that failed is an error; one that was cancelled is not.
Result<Completion> follow(Stream& stream, const std::function<void(const Delta&)>& show = {});

/// Calls Engine::complete for callers that need a whole answer: a request that failed on its way is
/// an error.
Result<Completion> answer_of(Engine& engine, const Request& request);

/// Has the engine generate tokens of no use, which pays for pages, caches and clocks.
Result<void> warm_up(Engine& engine, int tokens);

/// Ends the engine, which now writes its trace. A trace that could not be written is an error.
Result<void> close_engine(Engine& engine);

/// Returns the tokens per second after the first token; 0 if there were fewer than two.
double decode_rate(const Finished& end);

} // namespace paceline::apps
