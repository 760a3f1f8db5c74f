// A picture of a search for the capacity: latency over rate.
#include "apps/laboratory/load/capacity.hpp"
#include "apps/laboratory/svg.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::load {
namespace {

constexpr double picture_width = 720;
constexpr double picture_height = 420;
// Places of the axes, in pixels.
constexpr double plot_left = 70;
constexpr double plot_right = 696;
constexpr double plot_top = 48;
constexpr double plot_bottom = 364;

/// Returns the step of 1, 2 or 5 times a power of ten that divides `range` into about five.
double round_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (power * factor) <= 6)
      return power * factor;
  return power * 10;
}

/// One curve: an objective's latency at each finite rate.
struct Curve {
  const Objective* objective;
  svg::Points points; ///< Pairs of requests a second and milliseconds.
};

class Picture {
public:
  Picture(const Capacity& capacity, const std::vector<Objective>& objectives)
      : capacity_(capacity) {
    for (const Objective& objective : objectives)
      curves_.push_back({&objective, points_of(objective)});
    for (const Curve& curve : curves_) {
      include_latency(1e3 * curve.objective->seconds);
      for (const auto& [rate, milliseconds] : curve.points) {
        rate_max_ = std::max(rate_max_, 1.05 * rate);
        include_latency(milliseconds);
      }
    }
  }

  std::string text() const {
    std::string elements = axes();
    for (std::size_t i = 0; i < curves_.size(); ++i)
      elements += curve(i);
    return svg::picture(picture_width, picture_height, 12, elements + bound());
  }

private:
  svg::Points points_of(const Objective& objective) const {
    svg::Points points;
    for (const Trial& trial : capacity_.trials)
      if (std::isfinite(trial.rate) && objective.of(trial.figures) > 0)
        points.emplace_back(trial.rate, 1e3 * objective.of(trial.figures));
    std::ranges::sort(points);
    return points;
  }

  void include_latency(double milliseconds) {
    low_ = std::min(low_, std::floor(std::log10(milliseconds)));
    high_ = std::max(high_, std::ceil(std::log10(milliseconds)));
  }

  double x(double rate) const { return plot_left + (plot_right - plot_left) * rate / rate_max_; }
  double y(double milliseconds) const {
    const double share = (std::log10(milliseconds) - low_) / std::max(1.0, high_ - low_);
    return plot_bottom - (plot_bottom - plot_top) * share;
  }

  std::string axes() const {
    const std::string grid = "stroke=\"#dddddd\"";
    std::string elements;
    const double step = round_step(rate_max_);
    for (double rate = 0; rate <= rate_max_; rate += step)
      elements += svg::line(x(rate), plot_top, x(rate), plot_bottom, grid) +
                  svg::text(x(rate), plot_bottom + 18, "middle", fmt::format("{:g}", rate));
    for (double power = low_; power <= high_; ++power) {
      const double milliseconds = std::pow(10, power);
      elements +=
          svg::line(plot_left, y(milliseconds), plot_right, y(milliseconds), grid) +
          svg::text(plot_left - 8, y(milliseconds) + 4, "end", fmt::format("{:g}", milliseconds));
    }
    return elements +
           svg::text((plot_left + plot_right) / 2, picture_height - 14, "middle",
                     "requests a second") +
           svg::text(plot_left - 54, plot_top - 14, "start", "milliseconds");
  }

  std::string curve(std::size_t index) const {
    const Curve& curve = curves_[index];
    const std::string_view color = svg::color(index);
    const double milliseconds = 1e3 * curve.objective->seconds;
    svg::Points path;
    std::string dots;
    for (const auto& [rate, latency] : curve.points) {
      path.emplace_back(x(rate), y(latency));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x(rate),
                          y(latency), color);
    }
    return svg::polyline(path,
                         fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"", color)) +
           dots +
           svg::line(plot_left, y(milliseconds), plot_right, y(milliseconds),
                     fmt::format("stroke=\"{}\" stroke-dasharray=\"6 4\"", color)) +
           svg::text(plot_left + 90 + 150 * double(index), plot_top - 14, "start",
                     fmt::format("{}, at most {:g}", curve.objective->name, milliseconds),
                     fmt::format("fill=\"{}\"", color));
  }

  /// Draws the line that marks the capacity.
  std::string bound() const {
    if (!(capacity_.rate > 0) || !std::isfinite(capacity_.rate))
      return "";
    return svg::line(x(capacity_.rate), plot_top, x(capacity_.rate), plot_bottom,
                     "stroke=\"black\"") +
           svg::text(x(capacity_.rate) - 6, plot_top + 14, "end",
                     fmt::format("{:.3g}", capacity_.rate), "font-weight=\"bold\"");
  }

  const Capacity& capacity_;
  std::vector<Curve> curves_;
  double rate_max_ = 1e-9;
  double low_ = 9; ///< Lowest and highest power of ten of milliseconds.
  double high_ = -9;
};

} // namespace

std::string capacity_svg(const Capacity& capacity, const std::vector<Objective>& objectives) {
  return Picture(capacity, objectives).text();
}

} // namespace paceline::apps::load
