// Sets of models, traffic, and what placements of them come to: what the figures are made of.
#pragma once

#include "placement/estimate.hpp"
#include "placement/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::testing {

inline constexpr double gigabyte = 0x1p30;
/// Runs that a figure comes from.
inline constexpr int runs = 10;

/// A set of models and where a sweep stands.
struct Point {
  std::vector<placement::Model> models; ///< Their objectives are set by `scale`.
  int devices = 1;
  double gigabytes = 16; ///< Of each device.
  double rate = 1;
  double cv = 4;
  double scale = 5;
  double seconds = 60;
  int trials = 600; ///< PlanOptions::trials

  placement::Problem problem() const;
  std::vector<placement::Traffic> traffic() const;
};

void add_models(std::vector<placement::Model>& models, const char* name, int copies, double seconds,
                double gigabytes);

/// Returns the set s1, s2 or s3 of Li et al. 2023.
Point set(const std::string& name);

/// Returns a share in percent, with its interval.
std::string cell(const placement::Estimate& share);

/// Returns runs of the point's traffic with seeds from `first` on.
std::vector<placement::Workload> draws(const Point& point, std::uint64_t first);

/// What a sweep has at one point: the plan, then its baselines.
struct Curves {
  std::vector<placement::Estimate> attainment;
  double planning_seconds = 0;
};
Curves measure_point(const Point& point);

} // namespace paceline::testing
