// A search for the capacity as a picture: latency over rate.
#include "apps/load/capacity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::load {
namespace {

constexpr double picture_width = 720;
constexpr double picture_height = 420;
// Where the axes are.
constexpr double plot_left = 70;
constexpr double plot_right = 696;
constexpr double plot_top = 48;
constexpr double plot_bottom = 364;
constexpr std::array colors{"#0b62a4", "#c1440e", "#2e7d32", "#7b3fa0", "#8a6d00"};

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string label(double x, double y, const char* anchor, const std::string& text,
                  const std::string& style = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, style, text);
}

/// A step of 1, 2 or 5 times a power of ten that divides `range` into about five.
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
  std::vector<std::pair<double, double>> points; ///< Requests a second, milliseconds.
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
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        picture_width, picture_height);
    svg += axes();
    for (std::size_t i = 0; i < curves_.size(); ++i)
      svg += curve(i);
    return svg + bound() + "</svg>\n";
  }

private:
  std::vector<std::pair<double, double>> points_of(const Objective& objective) const {
    std::vector<std::pair<double, double>> points;
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
    std::string svg;
    const double step = round_step(rate_max_);
    for (double rate = 0; rate <= rate_max_; rate += step)
      svg += line(x(rate), plot_top, x(rate), plot_bottom, grid) +
             label(x(rate), plot_bottom + 18, "middle", fmt::format("{:g}", rate));
    for (double power = low_; power <= high_; ++power) {
      const double milliseconds = std::pow(10, power);
      svg += line(plot_left, y(milliseconds), plot_right, y(milliseconds), grid) +
             label(plot_left - 8, y(milliseconds) + 4, "end", fmt::format("{:g}", milliseconds));
    }
    return svg +
           label((plot_left + plot_right) / 2, picture_height - 14, "middle", "requests a second") +
           label(plot_left - 54, plot_top - 14, "start", "milliseconds");
  }

  std::string curve(std::size_t index) const {
    const Curve& curve = curves_[index];
    const std::string color = colors[index % colors.size()];
    const double milliseconds = 1e3 * curve.objective->seconds;
    std::string path;
    std::string dots;
    for (const auto& [rate, latency] : curve.points) {
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(rate), y(latency));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x(rate),
                          y(latency), color);
    }
    return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       path, color) +
           dots +
           line(plot_left, y(milliseconds), plot_right, y(milliseconds),
                fmt::format("stroke=\"{}\" stroke-dasharray=\"6 4\"", color)) +
           label(plot_left + 90 + 150 * double(index), plot_top - 14, "start",
                 fmt::format("{}, at most {:g}", curve.objective->name, milliseconds),
                 fmt::format("fill=\"{}\"", color));
  }

  /// Where the capacity is.
  std::string bound() const {
    if (!(capacity_.rate > 0) || !std::isfinite(capacity_.rate))
      return "";
    return line(x(capacity_.rate), plot_top, x(capacity_.rate), plot_bottom, "stroke=\"black\"") +
           label(x(capacity_.rate) - 6, plot_top + 14, "end", fmt::format("{:.3g}", capacity_.rate),
                 "font-weight=\"bold\"");
  }

  const Capacity& capacity_;
  std::vector<Curve> curves_;
  double rate_max_ = 1e-9;
  double low_ = 9; ///< Powers of ten of milliseconds.
  double high_ = -9;
};

} // namespace

std::string capacity_svg(const Capacity& capacity, const std::vector<Objective>& objectives) {
  return Picture(capacity, objectives).text();
}

} // namespace paceline::apps::load
