// An engine opened for a person who waits for it, and one request followed to its end.
#pragma once

#include "paceline/engine.hpp"

#include <functional>
#include <string>

namespace paceline::apps {

/// An open engine, and the real time that took.
struct Session {
  Engine engine;
  double load_seconds = 0;
};

/// Shows progress while models load; simulated devices get virtual time.
Result<Session> open_session(EngineOptions options);

/// Reads the stream to its end. show: called with each delta as it comes; may be empty. A request
/// that failed is an error; one that was cancelled is not.
Result<Completion> follow(Stream& stream, const std::function<void(const Delta&)>& show = {});

/// Makes an empty prompt one that a model can go on from. Models that begin texts with a token of
/// their own add it; for the others it is the token that ends texts, which separates the files
/// they were trained on.
Result<void> start_empty_prompt(const Engine& engine, const std::string& model, Request& request);

/// Tokens per second after the first one; 0 where there were fewer than two.
double decode_rate(const Finished& end);

} // namespace paceline::apps
