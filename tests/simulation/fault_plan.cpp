#include "tests/simulation/fault_plan.hpp"

#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <random>

namespace paceline::testing {
namespace {

/// How probable a fault is per occasion, when a plan has it: occasions differ in how often they
/// come (a message of one kind, any message, a piece of work, a row).
struct Rate {
  FaultField field;
  double low;
  double high;
};

constexpr std::array rates{
    Rate{{"kill", &FaultPlan::kill}, 0.02, 0.3},
    Rate{{"kill_after", &FaultPlan::kill_after}, 0.02, 0.3},
    Rate{{"kill_anybody", &FaultPlan::kill_anybody}, 0.002, 0.01},
    Rate{{"kill_supervisor", &FaultPlan::kill_supervisor}, 0.0005, 0.002},
    Rate{{"late", &FaultPlan::late}, 0.01, 0.1},
    Rate{{"repeated", &FaultPlan::repeated}, 0.01, 0.2},
    Rate{{"held_up", &FaultPlan::held_up}, 0.005, 0.05},
    Rate{{"slow", &FaultPlan::slow}, 0.01, 0.2},
    Rate{{"stalled", &FaultPlan::stalled}, 0.002, 0.03},
    Rate{{"stuck", &FaultPlan::stuck}, 0.002, 0.02},
    Rate{{"failing", &FaultPlan::failing}, 0.005, 0.05},
    Rate{{"lost", &FaultPlan::lost}, 0.005, 0.05},
    Rate{{"refused_memory", &FaultPlan::refused_memory}, 0.1, 0.5},
    Rate{{"lying_token", &FaultPlan::lying_token}, 0.005, 0.1},
    Rate{{"absurd_token", &FaultPlan::absurd_token}, 0.005, 0.1},
    Rate{{"lying_q", &FaultPlan::lying_q}, 0.005, 0.1},
    Rate{{"nan_row", &FaultPlan::nan_row}, 0.001, 0.02},
    Rate{{"leap", &FaultPlan::leap}, 0.001, 0.01},
    Rate{{"cut", &FaultPlan::cut}, 0.005, 0.05},
    Rate{{"parted", &FaultPlan::parted}, 0.005, 0.05},
    Rate{{"half_open", &FaultPlan::half_open}, 0.005, 0.05},
    Rate{{"frozen", &FaultPlan::frozen}, 0.005, 0.05},
    Rate{{"rebooted", &FaultPlan::rebooted}, 0.005, 0.05},
    Rate{{"exchanged", &FaultPlan::exchanged}, 0.005, 0.05},
};
constexpr std::size_t node_rates = 6; // the last of them

/// Faults beside a node's; each of them lets the engine go on with it.
constexpr std::array beside_node{
    &FaultPlan::kill, &FaultPlan::kill_after, &FaultPlan::kill_anybody,
    &FaultPlan::late, &FaultPlan::repeated,   &FaultPlan::held_up,
    &FaultPlan::slow, &FaultPlan::failing,    &FaultPlan::refused_memory,
    &FaultPlan::leap,
};
/// Faults beside those of stages; the first two are on their machines alone.
constexpr std::array beside_stages = [] {
  std::array<double FaultPlan::*, beside_node.size() + 2> all{&FaultPlan::stalled,
                                                              &FaultPlan::stuck};
  std::ranges::copy(beside_node, all.begin() + 2);
  return all;
}();

constexpr auto fields = [] {
  std::array<FaultField, rates.size()> names{};
  for (std::size_t i = 0; i < rates.size(); ++i)
    names[i] = rates[i].field;
  return names;
}();

} // namespace

std::span<const FaultField> fault_fields() {
  return fields;
}

std::span<const FaultField> local_fault_fields() {
  return std::span(fields).first(fields.size() - node_rates);
}

bool FaultPlan::any() const {
  return faults_max > 0 && std::ranges::any_of(fields, [this](const FaultField& field) {
           return this->*field.probability > 0;
         });
}

bool FaultPlan::spares_all() const {
  return std::ranges::all_of(fields, [this](const FaultField& field) {
    return field.probability == &FaultPlan::late || field.probability == &FaultPlan::repeated ||
           this->*field.probability == 0;
  });
}

bool FaultPlan::delays() const {
  return slow + stalled + stuck + held_up + leap + refused_memory > 0;
}

std::string FaultPlan::text() const {
  std::string text;
  for (const FaultField& field : fields)
    if (this->*field.probability > 0)
      text += fmt::format("{} {:.4g}, ", field.name, this->*field.probability);
  if (!any())
    return "no fault";
  if (kill > 0 || kill_after > 0)
    text += fmt::format("victim {}, ", message_kinds()[std::size_t(victim)].name);
  return text + fmt::format("at most {} faults", faults_max);
}

namespace {

FaultPlan draw_local_plan(std::uint64_t seed) {
  std::mt19937_64 random(seed ^ 0x706c616e);
  const auto uniform = [&] { return double(random() >> 11) * 0x1p-53; };
  FaultPlan plan;
  if (uniform() < 0.05)
    return plan;
  plan.victim = int(random() % local_message_kinds().size());
  plan.faults_max = 1 + int(random() % 6);
  for (auto kinds = 1 + random() % 3; kinds > 0; --kinds) {
    const Rate& rate = rates[random() % (rates.size() - node_rates)];
    plan.*rate.field.probability = rate.low + (rate.high - rate.low) * uniform();
  }
  if (plan.kill_supervisor == 0 && uniform() < 0.4) // the commonest fault of all
    plan.kill = 0.05;
  return plan;
}

FaultPlan draw_node_plan(std::uint64_t seed, std::span<const MessageKind> victims,
                         std::span<double FaultPlan::*const> beside) {
  std::mt19937_64 random(seed ^ 0x6e6f6465);
  const auto uniform = [&] { return double(random() >> 11) * 0x1p-53; };
  const auto add = [&](FaultPlan& plan, const Rate& rate) {
    plan.*rate.field.probability = rate.low + (rate.high - rate.low) * uniform();
  };
  FaultPlan plan;
  if (uniform() < 0.05)
    return plan;
  plan.victim = int(random() % victims.size());
  plan.faults_max = 1 + int(random() % 8);
  for (auto kinds = 1 + random() % 3; kinds > 0; --kinds)
    add(plan, rates[rates.size() - 1 - random() % node_rates]);
  if (uniform() < 0.5)
    add(plan, *std::ranges::find(rates, beside[random() % beside.size()],
                                 [](const Rate& rate) { return rate.field.probability; }));
  return plan;
}

} // namespace

FaultPlan draw_plan(std::uint64_t seed, Elsewhere elsewhere) {
  switch (elsewhere) {
  case Elsewhere::nothing: break;
  case Elsewhere::draft: return draw_node_plan(seed, local_message_kinds(), beside_node);
  case Elsewhere::several: return draw_node_plan(seed, message_kinds(), beside_stages);
  }
  return draw_local_plan(seed);
}

} // namespace paceline::testing
