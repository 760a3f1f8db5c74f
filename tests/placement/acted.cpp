#include "tests/placement/acted.hpp"

#include "apps/laboratory/plan/measure.hpp"
#include "placement/controller.hpp"
#include "placement/cost.hpp"
#include "placement/random.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/fed_engine.hpp"

#include <algorithm>
#include <array>
#include <boost/random/uniform_int_distribution.hpp>
#include <boost/random/uniform_real_distribution.hpp>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>

namespace paceline::testing {
using namespace placement;

namespace {

constexpr int prompt_tokens = 16;
constexpr const char* together_model = "scripted:vocabulary=32,memory=1,context=64";
/// Simulated devices count whole nanoseconds.
constexpr double rounding_seconds = 1e-6;

class CaseDrawer {
public:
  CaseDrawer(std::uint64_t seed, std::size_t requests)
      : random_(seed, Draws::moves, 1), requests_(requests) {}

  ActedCase draw() {
    const int groups = int(below(3)) + 1;
    const int models = int(below(4)) + 1;
    kinds_ = int(below(std::size_t(std::min({groups, models, 2})))) + 1;
    draw_models(models);
    for (int group = 0; group < groups; ++group)
      draw_group(group);
    drawn_.problem.devices.memory_bytes = 1000;
    draw_traffic();
    return std::move(drawn_);
  }

private:
  std::size_t below(std::size_t n) {
    return boost::random::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  double between(double low, double high) {
    return boost::random::uniform_real_distribution<double>(low, high)(random_);
  }

  void draw_models(int count) {
    const double latencies[] = {between(0.05, 0.2), between(0.2, 0.6)};
    for (int i = 0; i < count; ++i) {
      const double latency = latencies[i % kinds_];
      drawn_.problem.models.push_back(
          {fmt::format("m{}", i), latency, 1, latency * between(1, 6), {}});
    }
  }

  /// It hosts some of the models of its kind.
  void draw_group(int number) {
    constexpr Shape shapes[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}};
    Devices& devices = drawn_.problem.devices;
    if (number == 0)
      devices = {0, 0, between(0, 0.005), between(0, 0.3), between(0, 0.2)};
    Group group{{}, shapes[below(std::size(shapes))], {}};
    group.devices.resize(std::size_t(group.shape.devices()));
    std::iota(group.devices.begin(), group.devices.end(), devices.count);
    devices.count += group.shape.devices();
    for (int model = number % kinds_; model < int(drawn_.problem.models.size()); model += kinds_)
      if (group.models.empty() || below(10) < 7)
        group.add(model);
    drawn_.placement.groups.push_back(std::move(group));
  }

  /// Draws traffic of each kind, about as much as its groups can do.
  void draw_traffic() {
    std::vector<Traffic> traffic(drawn_.problem.models.size());
    double sum = 0;
    for (int kind = 0; kind < kinds_; ++kind) {
      double most = 0; // requests a second
      for (std::size_t g = std::size_t(kind); g < drawn_.placement.groups.size();
           g += std::size_t(kinds_)) {
        const auto stages = stage_seconds(drawn_.problem.models[std::size_t(kind)],
                                          drawn_.placement.groups[g].shape, drawn_.problem.devices);
        most += 1 / *std::ranges::max_element(stages);
      }
      const double rate = most * between(0.3, 1.2) / double(traffic.size());
      for (std::size_t m = std::size_t(kind); m < traffic.size(); m += std::size_t(kinds_)) {
        traffic[m] = {rate * kinds_, between(0.5, 4)};
        sum += traffic[m].rate;
      }
    }
    drawn_.workload = draw_workload(traffic, double(requests_) / sum, below(1'000'000));
  }

  Random random_;
  std::size_t requests_;
  int kinds_ = 1;
  ActedCase drawn_;
};

/// What the controller and the clock of its group know of a request.
struct UnderWay {
  Controller::Ticket ticket;
  double arrived;
  double objective;
};

class ActedGroup {
public:
  explicit ActedGroup(const std::vector<double>& stages)
      : engine_("scripted:vocabulary=32,memory=1,context=64", devices(stages), prompt_tokens, 1,
                FedEngine::Time::virtual_clock) {}

  void send(const UnderWay& request) {
    engine_.send();
    requests_.push_back(request);
  }
  /// The next end until then, and whose.
  std::optional<std::pair<UnderWay, double>> next_end(std::optional<double> until) {
    const auto end = engine_.next_end(until);
    return end ? std::optional(std::pair(requests_[end->first], end->second)) : std::nullopt;
  }

private:
  static std::vector<std::string> devices(const std::vector<double>& stages) {
    std::vector<std::string> names;
    for (const double seconds : stages)
      names.push_back(fmt::format("sim:{:.6f}ms", 1e3 * seconds));
    return names;
  }

  FedEngine engine_;
  std::vector<UnderWay> requests_; ///< All that were sent.
};

/// Groups, each with a clock of its own, behind one controller.
class Act {
public:
  explicit Act(const ActedCase& drawn) : case_(drawn), controller_(drawn.problem, drawn.placement) {
    for (const Group& group : drawn.placement.groups)
      groups_.push_back(std::make_unique<ActedGroup>(
          stage_seconds(drawn.problem.models[std::size_t(group.models.front())], group.shape,
                        drawn.problem.devices)));
  }

  double attainment() {
    for (const auto& [now, model] : case_.workload.arrivals) {
      end_until(now);
      const double objective = case_.problem.models[std::size_t(model)].objective_seconds;
      const auto routed = controller_.begin(model, now, now + objective);
      if (routed.dispatch.outcome == Dispatch::Outcome::accepted)
        groups_[std::size_t(routed.dispatch.group)]->send({routed.ticket, now, objective});
    }
    end_until({});
    return double(in_time_) / double(case_.workload.arrivals.size());
  }

private:
  /// Groups run on by themselves until then, and the controller hears of all ends in their order.
  void end_until(std::optional<double> until) {
    std::vector<std::pair<UnderWay, double>> ends;
    for (const auto& group : groups_)
      while (const auto end = group->next_end(until))
        ends.push_back(*end);
    std::ranges::stable_sort(ends, {}, [](const auto& end) { return end.second; });
    for (const auto& [request, seconds] : ends) {
      controller_.end(request.ticket, seconds);
      in_time_ += seconds - request.arrived <= request.objective + rounding_seconds ? 1 : 0;
    }
  }

  const ActedCase& case_;
  Controller controller_;
  std::vector<std::unique_ptr<ActedGroup>> groups_;
  std::size_t in_time_ = 0;
};

} // namespace

ActedCase draw_case(std::uint64_t seed, std::size_t requests) {
  return CaseDrawer(seed, requests).draw();
}

double acted_attainment(const ActedCase& drawn) {
  return Act(drawn).attainment();
}

TogetherLatencies together_latencies(const std::string& device, int stages) {
  constexpr int output_tokens = 32;
  const Shape shape{stages, 1};
  const std::vector<std::string> devices(std::size_t(stages), device);
  const auto costs = apps::plan::measure_costs(
      {together_model, "none", prompt_tokens, output_tokens, devices},
      {.max_pipeline = stages, .max_tensor = 1, .text = "Once upon a time.", .progress = {}});
  if (!costs)
    throw std::runtime_error(costs.error().text());
  const StageCosts& cost = costs->at(shape);
  Problem problem{{{"m", costs->at({1, 1}).seconds.front(), 1, HUGE_VAL, {}}}, {stages, 1}};
  problem.models.front().measured = *costs;
  const std::array traffic{Traffic{0.7 / least_seconds(cost), 3}};
  const Workload workload = draw_workload(traffic, 400 * least_seconds(cost) / 0.7, 1);
  Placement placement = empty_groups({shape});
  placement.groups.front().add(0);
  const Outcome simulated = simulate(problem, placement, workload);
  FedEngine engine(together_model, devices, prompt_tokens, output_tokens,
                   FedEngine::Time::virtual_clock);
  Outcome real;
  const auto take = [&](const std::pair<std::size_t, double>& end) {
    real.latencies.push_back(end.second - workload.arrivals[end.first].seconds);
  };
  for (const Arrival& arrival : workload.arrivals) {
    while (const auto end = engine.next_end(arrival.seconds))
      take(*end);
    engine.send();
  }
  while (const auto end = engine.next_end())
    take(*end);
  return {real.mean_latency(), simulated.mean_latency(), real.quantile(0.99),
          simulated.quantile(0.99), Pace(cost).at_once()};
}

} // namespace paceline::testing
