#include "placement/layouts.hpp"

#include "placement/cost.hpp"
#include "placement/limits.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline::placement {
namespace {

/// Latencies nearer than this are of one kind.
constexpr double least_ratio = 1.2;

bool usable(const Problem& problem, Shape shape) {
  for (std::size_t m = 0; m < problem.models.size(); ++m)
    if (bytes_per_device(problem.models[m], shape) <= problem.devices.memory_bytes &&
        in_time(shape, int(m), problem))
      return true;
  return false;
}

/// Returns the shapes that some model can use: 1x1 first, then by size, and pipelines before
/// tensors.
std::vector<Shape> usable_shapes(const Problem& problem, int devices, ShapeBounds bounds) {
  std::vector<Shape> shapes{{1, 1}};
  for (int size = 2; size <= devices; size *= 2)
    for (int tensor = 1; tensor <= std::min(size, bounds.tensor); tensor *= 2)
      if (const Shape shape{size / tensor, tensor};
          shape.pipeline <= bounds.pipeline && usable(problem, shape))
        shapes.push_back(shape);
  return shapes;
}

std::vector<Shape> uniform(Shape shape, int devices, ShapeBounds bounds) {
  std::vector<Shape> layout(std::size_t(devices / shape.devices()), shape);
  int left = devices % shape.devices();
  for (int size = shape.devices(); size >= 1; size /= 2)
    for (; left >= size && size <= bounds.pipeline; left -= size)
      layout.push_back({size, 1});
  return layout;
}

/// Adds all layouts that begin with `begun` and go on with shapes from `from` on.
void mix(const std::vector<Shape>& shapes, std::size_t from, int left, std::vector<Shape>& begun,
         std::vector<std::vector<Shape>>& all) {
  if (left == 0)
    all.push_back(begun);
  for (std::size_t i = from; i < shapes.size(); ++i)
    if (shapes[i].devices() <= left) {
      begun.push_back(shapes[i]);
      mix(shapes, i, left - shapes[i].devices(), begun, all);
      begun.pop_back();
    }
}

/// Returns the places, in the models by latency, where the ratio to the next is largest and not
/// small.
std::vector<std::size_t> cuts(const Problem& problem, const Bucket& sorted) {
  std::vector<std::pair<double, std::size_t>> gaps;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double ratio = problem.models[std::size_t(sorted[i])].latency_seconds /
                         problem.models[std::size_t(sorted[i - 1])].latency_seconds;
    if (ratio >= least_ratio)
      gaps.push_back({-ratio, i});
  }
  std::sort(gaps.begin(), gaps.end());
  gaps.resize(std::min(gaps.size(), std::size_t(limits::buckets_max - 1)));
  std::vector<std::size_t> at;
  for (const auto& gap : gaps)
    at.push_back(gap.second);
  std::sort(at.begin(), at.end());
  return at;
}

/// Shares the devices in proportion to `work`, at least one each.
std::vector<int> proportional(const std::vector<double>& work, int devices) {
  std::vector<int> shares(work.size(), 1);
  for (int given = int(work.size()); given < devices; ++given) {
    std::size_t neediest = 0;
    for (std::size_t i = 1; i < work.size(); ++i)
      if (work[i] * shares[neediest] > work[neediest] * shares[i])
        neediest = i;
    ++shares[neediest];
  }
  return shares;
}

} // namespace

std::vector<std::vector<Shape>> layouts(const Problem& problem, int devices, ShapeBounds bounds) {
  const auto shapes = usable_shapes(problem, devices, bounds);
  std::vector<std::vector<Shape>> all;
  if (devices <= limits::mixed_devices_max) {
    std::vector<Shape> begun;
    mix(shapes, 0, devices, begun, all);
  } else {
    for (const Shape shape : shapes)
      all.push_back(uniform(shape, devices, bounds));
  }
  return all;
}

std::vector<std::vector<Bucket>> bucketings(const Problem& problem) {
  Bucket sorted(problem.models.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return problem.models[std::size_t(a)].latency_seconds <
           problem.models[std::size_t(b)].latency_seconds;
  });
  const auto at = cuts(problem, sorted);
  std::vector<std::vector<Bucket>> all;
  for (std::size_t chosen = 0; chosen < std::size_t(1) << at.size(); ++chosen) {
    std::vector<Bucket> buckets(1);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const auto cut = std::find(at.begin(), at.end(), i);
      if (cut != at.end() && (chosen >> (cut - at.begin()) & 1))
        buckets.emplace_back();
      buckets.back().push_back(sorted[i]);
    }
    for (Bucket& bucket : buckets)
      std::sort(bucket.begin(), bucket.end());
    all.push_back(std::move(buckets));
  }
  return all;
}

std::vector<std::vector<int>> shares(const Problem& problem, const Workload& workload,
                                     const std::vector<Bucket>& buckets, int devices) {
  if (devices < int(buckets.size()))
    return {};
  std::vector<double> by_model(problem.models.size(), 0.0);
  for (const Arrival& arrival : workload.arrivals)
    by_model[std::size_t(arrival.model)] +=
        problem.models[std::size_t(arrival.model)].latency_seconds;
  std::vector<double> work(buckets.size(), 1e-9);
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (const int model : buckets[b])
      work[b] += by_model[std::size_t(model)];
  const std::vector<int> base = proportional(work, devices);
  std::vector<std::vector<int>> all{base};
  const int step = std::max(1, devices / 16);
  for (std::size_t b = 1; b < base.size(); ++b)
    for (const int moved : {-2 * step, -step, step, 2 * step}) {
      std::vector<int> share = base;
      share[b - 1] += moved;
      share[b] -= moved;
      if (std::min(share[b - 1], share[b]) >= 1)
        all.push_back(std::move(share));
    }
  return all;
}

} // namespace paceline::placement
