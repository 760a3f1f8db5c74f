// Pictures of docs/theory.md's formulas.
#include "apps/laboratory/svg.hpp"
#include "apps/laboratory/theory/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps::theory {
namespace {

constexpr double picture_width = 900;
constexpr double picture_height = 400;
constexpr double panel_width = 360;
constexpr double panel_top = 56;
constexpr double panel_bottom = 340;
constexpr double left_panel = 60;
constexpr double right_panel = 500;

constexpr double cost_max = 0.5;
constexpr std::array speeds{1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
/// Longer windows are not drawn unless one is the best, or was asked for.
constexpr int windows_drawn = 16;

/// A rectangle of the picture with an axis each way, both from 0.
class Panel {
public:
  Panel(double left, double x_max, double y_max) : left_(left), x_max_(x_max), y_max_(y_max) {}

  double x(double value) const { return left_ + panel_width * value / x_max_; }
  double y(double value) const {
    return panel_bottom - (panel_bottom - panel_top) * value / y_max_;
  }

  std::string axes(double x_step, double y_step, const char* x_name, const char* title) const {
    constexpr const char* grid = "stroke=\"#dddddd\"";
    constexpr double rounding = 1e-9;
    std::string elements = svg::text(left_, panel_top - 36, "start", title, "font-size=\"14\"");
    for (double value = 0; value <= x_max_ + rounding; value += x_step)
      elements += svg::line(x(value), panel_top, x(value), panel_bottom, grid) +
                  svg::text(x(value), panel_bottom + 18, "middle", fmt::format("{:.3g}", value));
    for (double value = 0; value <= y_max_ + rounding; value += y_step)
      elements += svg::line(left_, y(value), left_ + panel_width, y(value), grid) +
                  svg::text(left_ - 8, y(value) + 4, "end", fmt::format("{:.3g}", value));
    return elements + svg::text(left_ + panel_width / 2, panel_bottom + 40, "middle", x_name);
  }

  std::string curve(const svg::Points& values, std::string_view color) const {
    svg::Points points;
    for (const auto& [at, value] : values)
      points.emplace_back(x(at), y(value));
    return svg::polyline(points,
                         fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"", color));
  }

  std::string dot(double at, double value) const {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", x(at), y(value));
  }

private:
  double left_;
  double x_max_;
  double y_max_;
};

/// Draws lines of equal speed of `sync` at its best window, over acceptance and draft cost.
std::string speed_lines(const Report& report) {
  const Panel panel(left_panel, 1, cost_max);
  std::string elements = panel.axes(0.2, 0.1, "acceptance rate a",
                                    "Draft cost c at which sync is so many times as fast");
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    svg::Points line;
    constexpr int steps = 50;
    for (int step = 0; step <= steps; ++step) {
      Quantities at = report.quantities;
      at.draft_cost = cost_max * step / steps;
      const double a = acceptance_for(at, int(report.gains.size()), speeds[i]);
      constexpr double reached = 0.9999;
      if (a < reached)
        line.emplace_back(a, at.draft_cost);
    }
    if (line.empty())
      continue;
    elements += panel.curve(line, svg::color(i));
    elements +=
        svg::text(panel.x(line.back().first) - 6, panel.y(line.back().second) - 4, "end",
                  fmt::format("{:g}", speeds[i]), fmt::format("fill=\"{}\"", svg::color(i)));
  }
  const Quantities& q = report.quantities;
  if (q.draft_cost <= cost_max)
    elements += panel.dot(q.acceptance, q.draft_cost);
  return elements;
}

/// Draws the speed of the modes over the window.
std::string window_curves(const Report& report) {
  int last = std::max(windows_drawn, report.window);
  double most = 1;
  for (const Mode& mode : modes) {
    const WindowGain& best = best_of(report.gains, mode.rate);
    last = std::max(last, best.window);
    most = std::max(most, best.*mode.rate);
  }
  last = std::min(last, int(report.gains.size()));
  const double y_step = most > 10 ? 5 : 1;
  const Panel panel(right_panel, last, y_step * std::ceil(most / y_step));
  const Quantities& q = report.quantities;
  std::string elements =
      panel.axes(last > windows_drawn ? 4 : 2, y_step, "window K",
                 fmt::format("Times as fast as plain decoding, a = {:.3g}, c = {:.3g}",
                             q.acceptance, q.draft_cost)
                     .c_str());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    svg::Points line;
    for (int window = 1; window <= last; ++window)
      line.emplace_back(window, report.gains[std::size_t(window - 1)].*modes[i].rate);
    const WindowGain& best = best_of(report.gains, modes[i].rate);
    elements += panel.curve(line, svg::color(i)) + panel.dot(best.window, best.*modes[i].rate) +
                svg::text(right_panel + 120 * double(i), panel_top - 14, "start", modes[i].name,
                          fmt::format("fill=\"{}\"", svg::color(i)));
  }
  return elements;
}

} // namespace

std::string theory_svg(const Report& report) {
  return svg::picture(picture_width, picture_height, 12,
                      speed_lines(report) + window_curves(report));
}

} // namespace paceline::apps::theory
