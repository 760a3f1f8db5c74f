// A fault plan at work: decides at each occasion whether something goes wrong.
#pragma once

#include "tests/simulation/fault_plan.hpp"

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace paceline::testing {

/// Each kind of fault has random numbers of its own, so that taking one kind out of a plan leaves
/// the others' as they were.
class FaultSource {
public:
  using Field = double FaultPlan::*;

  FaultSource(const FaultPlan& plan, std::uint64_t seed) : plan_(plan) {
    for (std::size_t kind = 0; kind < fault_fields().size(); ++kind)
      random_.emplace_back(seed * 31 + kind);
  }

  const FaultPlan& plan() const { return plan_; }
  /// This occasion is one of its.
  bool strikes(Field field) {
    if (plan_.*field <= 0 || count_ >= plan_.faults_max)
      return false;
    const std::size_t kind = index_of(field);
    if (double(random_[kind]() >> 11) * 0x1p-53 >= plan_.*field)
      return false;
    ++count_;
    ++counts_[fault_fields()[kind].name];
    if (log)
      log(fault_fields()[kind].name);
    return true;
  }
  /// Draws a delay from nothing to `most`, mostly a short one.
  base::Duration delay(base::Duration most) {
    const double u = double(delays_() >> 11) * 0x1p-53;
    return base::from_seconds(base::seconds(most) * u * u);
  }
  /// Nothing goes wrong from now on.
  void end() { plan_.faults_max = 0; }

  int count() const { return count_; }
  const std::map<std::string, int>& counts() const { return counts_; }

  std::function<void(const std::string&)> log; ///< Told of every fault; may be empty.

private:
  static std::size_t index_of(Field field) {
    std::size_t index = 0;
    while (fault_fields()[index].probability != field)
      ++index;
    return index;
  }

  FaultPlan plan_;
  std::vector<std::mt19937_64> random_; ///< By field.
  std::mt19937_64 delays_{1};
  int count_ = 0;
  std::map<std::string, int> counts_;
};

} // namespace paceline::testing
