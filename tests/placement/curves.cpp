#include "tests/placement/curves.hpp"

#include "apps/laboratory/svg.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

namespace svg = apps::svg;

constexpr double width = 210;
constexpr double height = 170;
constexpr double left = 44;
constexpr double top = 46;
constexpr double between = 34;
constexpr double label_width = 24;

double x_of(const Panel& panel, std::size_t i) {
  const double span = panel.values.back() - panel.values.front();
  return width * (panel.values[i] - panel.values.front()) / (span > 0 ? span : 1);
}

double y_of(double share) {
  return height * (1 - std::clamp(share, 0.0, 1.0));
}

std::string axes(const Panel& panel) {
  std::string text;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.99})
    text += svg::line(0, y_of(share), width, y_of(share), "stroke=\"#ddd\"") +
            svg::text(-6, y_of(share) + 4, "end", fmt::format("{:g} %", 100 * share));
  double last = -label_width;
  for (std::size_t i = 0; i < panel.values.size(); ++i)
    if (const double x = x_of(panel, i); x >= last + label_width) {
      text += svg::text(x, height + 15, "middle", fmt::format("{:g}", panel.values[i]));
      last = x;
    }
  return text + svg::text(width / 2, height + 32, "middle", panel.what);
}

std::string curve(const Panel& panel, std::size_t line) {
  svg::Points path, band, lower;
  for (std::size_t i = 0; i < panel.values.size(); ++i) {
    const placement::Estimate& share = panel.attainments[i][line];
    const double x = x_of(panel, i);
    path.emplace_back(x, y_of(share.mean));
    band.emplace_back(x, y_of(share.mean + share.half_width));
    lower.emplace_back(x, y_of(share.mean - share.half_width));
  }
  band.insert(band.end(), lower.rbegin(), lower.rend());
  const std::string_view color = svg::color(line);
  return svg::polyline(band, fmt::format("fill=\"{}\" opacity=\".15\"", color)) +
         svg::polyline(path, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"", color,
                                         line == 0 ? 2.5 : 1.5));
}

} // namespace

std::string draw_curves(const std::string& title, const std::vector<std::string>& lines,
                        const std::vector<Panel>& panels) {
  std::string text = svg::text(left, 16, "start", title, "font-size=\"13\"");
  for (std::size_t line = 0; line < lines.size(); ++line)
    text += svg::text(left + 165 * double(line), 33, "start", lines[line],
                      fmt::format("fill=\"{}\"", svg::color(line)));
  for (std::size_t p = 0; p < panels.size(); ++p) {
    text += fmt::format("<g transform=\"translate({:g} {:g})\">\n{}",
                        left + double(p) * (width + left + between), top, axes(panels[p]));
    for (std::size_t line = lines.size(); line-- > 0;)
      text += curve(panels[p], line);
    text += "</g>\n";
  }
  return svg::picture(left + double(panels.size()) * (width + left + between), top + height + 44,
                      11, text);
}

} // namespace paceline::testing
