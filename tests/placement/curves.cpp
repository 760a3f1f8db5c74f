#include "tests/placement/curves.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::testing {
namespace {

constexpr double width = 210;
constexpr double height = 170;
constexpr double left = 44;
constexpr double top = 46;
constexpr double between = 34;
constexpr double label_width = 24;
constexpr std::array colours{"#0b6e99", "#d9730d", "#6b7280", "#5b8c3e", "#9b51b0"};

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
    text += fmt::format("<path d=\"M0 {0:.1f}H{1}\" stroke=\"#ddd\"/><text x=\"-6\" y=\"{2:.1f}\" "
                        "text-anchor=\"end\">{3:g} %</text>\n",
                        y_of(share), width, y_of(share) + 4, 100 * share);
  double last = -label_width;
  for (std::size_t i = 0; i < panel.values.size(); ++i)
    if (const double x = x_of(panel, i); x >= last + label_width) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", x,
                          height + 15, panel.values[i]);
      last = x;
    }
  return text + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", width / 2,
                            height + 32, panel.what);
}

std::string curve(const Panel& panel, std::size_t line) {
  std::string path, upper, lower;
  for (std::size_t i = 0; i < panel.values.size(); ++i) {
    const placement::Estimate& share = panel.attainments[i][line];
    const double x = x_of(panel, i);
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y_of(share.mean));
    upper += fmt::format("{:.1f},{:.1f} ", x, y_of(share.mean + share.half_width));
    lower = fmt::format("{:.1f},{:.1f} ", x, y_of(share.mean - share.half_width)) + lower;
  }
  const char* colour = colours[line % colours.size()];
  return fmt::format("<polygon points=\"{}{}\" fill=\"{}\" opacity=\".15\"/><path d=\"{}\" "
                     "fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
                     upper, lower, colour, path, colour, line == 0 ? 2.5 : 1.5);
}

} // namespace

std::string draw_curves(const std::string& title, const std::vector<std::string>& lines,
                        const std::vector<Panel>& panels) {
  const double whole = left + double(panels.size()) * (width + left + between);
  std::string text =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" "
                  "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" "
                  "height=\"100%\" fill=\"#fff\"/>\n<text x=\"{:g}\" y=\"16\" "
                  "font-size=\"13\">{}</text>\n",
                  whole, top + height + 44, left, title);
  for (std::size_t line = 0; line < lines.size(); ++line)
    text += fmt::format("<text x=\"{:g}\" y=\"33\" fill=\"{}\">{}</text>\n",
                        left + 165 * double(line), colours[line % colours.size()], lines[line]);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    text += fmt::format("<g transform=\"translate({:g} {:g})\">\n{}",
                        left + double(p) * (width + left + between), top, axes(panels[p]));
    for (std::size_t line = lines.size(); line-- > 0;)
      text += curve(panels[p], line);
    text += "</g>\n";
  }
  return text + "</svg>\n";
}

} // namespace paceline::testing
