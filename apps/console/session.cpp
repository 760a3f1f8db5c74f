#include "apps/console/session.hpp"

#include "apps/console/options.hpp"
#include "apps/console/terminal.hpp"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::apps {

Result<Session> open_session(EngineOptions options, SimulatedTime time) {
  ProgressLine line;
  options.progress = [&line](const std::string& what, double done) { line.show(what, done); };
  options.virtual_time = simulated(options) && time == SimulatedTime::virtual_clock;
  const auto begin = std::chrono::steady_clock::now();
  auto engine = Engine::open(std::move(options));
  if (!engine)
    return tl::unexpected(engine.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  line.clear();
  if (const auto& ignored = engine->target().not_obeyed; !ignored.empty())
    note(fmt::format("Of the model's generation_config.json not obeyed: {}\n",
                     fmt::join(ignored, ", ")));
  return Session{std::move(*engine), took.count()};
}

Result<Completion> follow(Stream& stream, const std::function<void(const Delta&)>& show) {
  Completion answer;
  while (auto event = stream.next()) {
    if (const auto* delta = std::get_if<Delta>(&*event)) {
      answer.add(*delta);
      if (show)
        show(*delta);
    } else if (auto* end = std::get_if<Finished>(&*event)) {
      answer.end = std::move(*end);
    }
  }
  if (answer.end.error)
    return tl::unexpected(*answer.end.error);
  return answer;
}

Result<Completion> answer_of(Engine& engine, const Request& request) {
  return engine.submit(request).and_then([](Stream&& stream) { return follow(stream); });
}

Result<void> warm_up(Engine& engine, int tokens) {
  Request request;
  request.prompt_tokens = {0}; // Every vocabulary has this id.
  request.max_tokens = tokens;
  request.ignore_eos = true;
  return answer_of(engine, request).map([](const Completion&) {});
}

Result<void> close_engine(Engine& engine) {
  return engine.shutdown(std::chrono::milliseconds(0));
}

double decode_rate(const Finished& end) {
  const int decoded = end.usage.completion_tokens - 1;
  return decoded > 0 && end.timing.decode_seconds > 0 ? decoded / end.timing.decode_seconds : 0;
}

} // namespace paceline::apps
