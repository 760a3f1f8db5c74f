#include "tests/simulation/distribution.hpp"

#include "tests/exactness/cases.hpp"
#include "tests/sampling/window_world.hpp"

#include <atomic>
#include <fmt/format.h>
#include <thread>
#include <vector>

namespace paceline::testing {
namespace {

Fit fit_of(const Case& c) {
  const Outcome outcome = run(c.setting);
  const World world = world_of(c.setting);
  const auto probabilities = enumerate(world);
  std::vector<std::uint64_t> counts(probabilities.size());
  for (const Tokens& output : outcome.outputs)
    ++counts[index_of(output, world.vocabulary)];
  return {c.name, int(outcome.outputs.size()), outcome.kills, chi_square(probabilities, counts), 0};
}

} // namespace

std::string Fit::text() const {
  return fmt::format("{:<20} {:>7} outputs, {:>7} kills, {:>4} cells, p = {:.3g}", name, outputs,
                     kills, chi_square.cells, chi_square.p_value);
}

std::vector<Fit> rejection_under_kills(int outputs) {
  std::vector<Case> cases = cases_of(sampling::Rule::rejection);
  // Where steps are longer than anybody lives nothing is ever drawn.
  std::erase_if(cases, [](const Case& c) { return !c.setting.gives_up; });
  for (Case& c : cases) {
    c.setting.requests = outputs / int(cases.size()) + 1 + c.setting.warm_up;
    c.setting.killed_every = std::chrono::milliseconds(8);
    c.setting.seed += 1000;
    c.setting.pace.malice = Malice::none;
  }
  std::vector<Fit> fits(cases.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++)
      fits[i] = fit_of(cases[i]);
  };
  std::thread other(work);
  work();
  other.join();
  int all = 0;
  for (const Fit& fit : fits)
    all += fit.outputs;
  for (Fit& fit : fits)
    fit.all = all;
  return fits;
}

} // namespace paceline::testing
