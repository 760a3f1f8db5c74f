// What tests of a whole engine share: scripted pairs on simulated devices, and answers that were
// checked while they came.
#pragma once

#include "paceline/engine.hpp"
#include "text/utf8.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::testing {

/// A target of 32 words whose next word depends on the last three, and a draft whose distributions
/// overlap the target's by `acceptance`.
struct ScriptedPair {
  double acceptance = 0.8;
  int context = 256;
  int draft_context = 256;
  std::uint64_t seed = 7;
  bool peaked = true; ///< So that the likeliest word of both is often the same.

  std::string target() const { return name(1, context); }
  std::string draft() const { return name(acceptance, draft_context); }

private:
  std::string name(double accepted, int length) const {
    return fmt::format("scripted:vocabulary=32,memory=3,seed={},acceptance={},context={},peaked={}",
                       seed, accepted, length, int(peaked));
  }
};

/// The pair on two simulated devices and a virtual clock: an hour of decoding takes a moment, and
/// the same seed gives the same order of events.
inline EngineOptions simulated(const ScriptedPair& pair = {}) {
  EngineOptions options;
  options.target = pair.target();
  options.drafters = {pair.draft()};
  options.devices = {"sim:10ms+0.1ms/row"};
  options.draft_devices = {"sim:1ms+0.01ms/row"};
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(1) << 20;
  return options;
}

/// Returns the options with simulated devices, whose time a test holds in its hand.
inline EngineOptions on_simulated(EngineOptions options) {
  options.devices = {"sim:10ms+0.1ms/row"};
  options.draft_devices = {"sim:1ms+0.1ms/row"};
  options.virtual_time = true;
  options.kv_memory_bytes = std::size_t(48) << 20;
  return options;
}

/// The demo target on such devices.
inline EngineOptions demo_in(SpeculationMode mode, std::vector<std::string> drafters = {"auto"}) {
  EngineOptions options;
  options.drafters = std::move(drafters);
  options.speculation = mode;
  options.max_model_len = 256;
  return on_simulated(std::move(options));
}

inline Engine open_engine(EngineOptions options) {
  auto engine = Engine::open(std::move(options));
  if (!engine)
    FAIL(engine.error().text());
  return std::move(*engine);
}

/// Everything one request gave back.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::string text;
  std::vector<PromptLogprobs> prompt;
  std::vector<Finished> ends;
  int deltas = 0;

  /// Checks what holds for every request as its events come.
  void add(Event event) {
    CHECK(ends.empty()); // nothing comes after the end
    if (auto* delta = std::get_if<Delta>(&event))
      add(std::move(*delta));
    else if (auto* scores = std::get_if<PromptLogprobs>(&event))
      add(std::move(*scores));
    else
      ends.push_back(std::get<Finished>(std::move(event)));
  }
  const Finished& end() const {
    REQUIRE(ends.size() == 1);
    return ends.front();
  }

private:
  void add(Delta delta) {
    ++deltas;
    CHECK(delta.sources.size() == delta.tokens.size());
    CHECK((delta.logprobs.empty() || delta.logprobs.size() == delta.tokens.size()));
    CHECK(text::sanitize_utf8(delta.text) == delta.text); // whole characters
    tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
    sources.insert(sources.end(), delta.sources.begin(), delta.sources.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    text += delta.text;
  }
  void add(PromptLogprobs scores) {
    CHECK(deltas == 0);
    CHECK(prompt.empty());
    CHECK(scores.logprobs.size() == scores.tokens.size());
    prompt.push_back(std::move(scores));
  }
};

/// Reads a stream to its end, which must come and be the only one.
inline Answer read_all(Stream& stream) {
  Answer answer;
  while (auto event = stream.next())
    answer.add(std::move(*event));
  CHECK(answer.ends.size() == 1);
  return answer;
}

inline Stream submit(Engine& engine, const Request& request) {
  auto stream = engine.submit(request);
  if (!stream)
    FAIL(stream.error().text());
  return std::move(*stream);
}

inline Answer ask(Engine& engine, const Request& request) {
  Stream stream = submit(engine, request);
  return read_all(stream);
}

/// All at once: they decode as one batch.
inline std::vector<Answer> ask_all(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Stream> streams;
  for (const Request& request : requests)
    streams.push_back(submit(engine, request));
  std::vector<Answer> answers;
  for (Stream& stream : streams)
    answers.push_back(read_all(stream));
  return answers;
}

inline std::vector<std::vector<TokenId>> tokens_of(const std::vector<Answer>& answers) {
  std::vector<std::vector<TokenId>> all;
  for (const Answer& answer : answers)
    all.push_back(answer.tokens);
  return all;
}

/// Returns why no engine opens with these options.
inline Error refused(const EngineOptions& options) {
  const auto engine = Engine::open(options);
  REQUIRE(!engine);
  return engine.error();
}

} // namespace paceline::testing
