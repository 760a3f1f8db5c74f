#include "apps/laboratory/svg.hpp"

#include <array>
#include <fmt/format.h>

namespace paceline::apps::svg {
namespace {

constexpr std::array<std::string_view, 5> colors{"#0b62a4", "#c1440e", "#2e7d32", "#7b3fa0",
                                                 "#8a6d00"};

} // namespace

std::string picture(double width, double height, int font_size, const std::string& elements) {
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" "
                     "width=\"{0:g}\" height=\"{1:g}\" font-family=\"sans-serif\" "
                     "font-size=\"{2}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                     "{3}</svg>\n",
                     width, height, font_size, elements);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string polyline(const Points& points, std::string_view style) {
  std::string at;
  for (const auto& [x, y] : points)
    at += fmt::format("{}{:.1f},{:.1f}", at.empty() ? "" : " ", x, y);
  return fmt::format("<polyline points=\"{}\" {}/>\n", at, style);
}

std::string text(double x, double y, std::string_view anchor, std::string_view what,
                 std::string_view style) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, style, escaped(what));
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

std::string_view color(std::size_t curve) {
  return colors[curve % colors.size()];
}

} // namespace paceline::apps::svg
