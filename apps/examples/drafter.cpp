// A drafter of your own, without a model: it looks for where the last two words stood before, and
// proposes what followed them there. (EngineOptions::drafters has better ones of the kind: "suffix"
// and "ngram".) Whatever it proposes, the output is the target's; good guesses only make it faster.
#include "paceline/engine.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

class PromptLookup final : public paceline::Drafter {
public:
  void propose(std::span<paceline::DraftTask* const> tasks) override {
    for (paceline::DraftTask* task : tasks)
      propose(*task);
  }

private:
  static void propose(paceline::DraftTask& task) {
    constexpr std::ptrdiff_t words = 2;
    const auto context = task.context();
    if (std::ssize(context) <= words)
      return;
    const auto last = context.end() - words;
    const auto found = std::find_end(context.begin(), context.end() - 1, last, context.end());
    if (found == context.end() - 1)
      return;
    // A proposal is part of the context from then on, and may move it.
    for (auto next = found - context.begin() + words; task.wanted() > 0; ++next)
      task.propose(task.context()[std::size_t(next)]);
  }
};

int main() {
  paceline::EngineOptions options;
  options.custom_drafter = std::make_shared<PromptLookup>();
  auto engine = paceline::Engine::open(options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  paceline::Request request;
  request.prompt = "a = [1, 2, 3]\nb = [1, 2, 3]\nc = [1, 2, 3]\nd = [1, 2,";
  request.max_tokens = 32;
  request.sampling.temperature = 0.0f;
  request.speculation = paceline::SpeculationMode::sync;
  const auto answer = engine->complete(request);
  if (!answer) {
    std::fprintf(stderr, "%s\n", answer.error().text().c_str());
    return 1;
  }
  const auto& speculation = answer->end.speculation;
  std::printf("%s\naccepted %llu of %llu judged, %.2f tokens a round\n", answer->text.c_str(),
              static_cast<unsigned long long>(speculation.accepted),
              static_cast<unsigned long long>(speculation.judged),
              double(answer->tokens.size()) /
                  double(std::max<std::uint64_t>(speculation.rounds, 1)));
}
