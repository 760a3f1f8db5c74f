#include "tests/simulation/answer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::testing {
namespace {

class Sink final : public base::EventSink {
public:
  Sink(SimulatedAnswer& answer, std::function<void(const Finished&)> ended)
      : answer_(answer), ended_(std::move(ended)) {}
  void deliver(Event event) override {
    answer_.late |= !answer_.ends.empty();
    if (auto* delta = std::get_if<Delta>(&event)) {
      answer_.tokens.insert(answer_.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      answer_.text += delta->text;
    } else if (auto* end = std::get_if<Finished>(&event)) {
      ended_(*end);
      answer_.ends.push_back(std::move(*end));
    } else {
      ++answer_.scores;
    }
  }

private:
  SimulatedAnswer& answer_;
  std::function<void(const Finished&)> ended_;
};

} // namespace

std::shared_ptr<base::EventSink> make_sink(SimulatedAnswer& answer,
                                           std::function<void(const Finished&)> ended) {
  return std::make_shared<Sink>(answer, std::move(ended));
}

void SimulatedAnswer::check(std::vector<std::string>& failures) const {
  const auto fail = [&](const std::string& what) {
    failures.push_back(fmt::format("request {}: {}", job->spec.id, what));
  };
  if (ends.size() != 1)
    return fail(fmt::format("it ended {} times", ends.size()));
  if (late)
    fail("something came behind its end");
  const Finished& end = ends.front();
  if (end.usage.completion_tokens != int(tokens.size()))
    fail("its usage is not what it streamed");
  const bool whole = end.reason == FinishReason::stop || end.reason == FinishReason::length;
  if (job->spec.prompt_logprobs && whole && scores != 1)
    fail(fmt::format("its prompt was scored {} times", scores));
  if (job->spec.judged_by() == sampling::Rule::rejection ||
      (job->spec.rule == sampling::Rule::match && !job->spec.warping.greedy())) {
    if (int(tokens.size()) > job->spec.max_tokens)
      fail("more tokens than it asked for");
    if (end.reason == FinishReason::length && int(tokens.size()) < job->spec.max_tokens)
      fail("fewer tokens than it asked for");
    return;
  }
  const bool prefix = tokens.size() <= expected.tokens.size() &&
                      std::equal(tokens.begin(), tokens.end(), expected.tokens.begin());
  if (!prefix)
    return fail(fmt::format("tokens [{}] are not the model's [{}]", fmt::join(tokens, " "),
                            fmt::join(expected.tokens, " ")));
  if (whole && tokens.size() != expected.tokens.size())
    fail(fmt::format("ended ({}) after {} tokens of {}", to_string(end.reason), tokens.size(),
                     expected.tokens.size()));
  if (whole && (text != expected.text || end.reason != expected.reason))
    fail("its text or reason is not what plain decoding gives");
}

} // namespace paceline::testing
