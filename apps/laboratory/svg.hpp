// SVG elements for pictures of curves.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::svg {

/// Returns a whole file with these elements on white. font_size: in pixels, of text without a size
/// of its own.
std::string picture(double width, double height, int font_size, const std::string& elements);

// The functions below return elements. Coordinates are pixels from the upper left; `style` is
// attributes, such as stroke="black".

std::string line(double x1, double y1, double x2, double y2, std::string_view style);
using Points = std::vector<std::pair<double, double>>;
std::string polyline(const Points& points, std::string_view style);
/// anchor: the part of the text that is at x: "start", "middle" or "end".
std::string text(double x, double y, std::string_view anchor, std::string_view what,
                 std::string_view style = {});

/// Returns the text as it may stand between tags.
std::string escaped(std::string_view text);
/// Returns the color of one of several curves; after a few the colors repeat.
std::string_view color(std::size_t curve);

} // namespace paceline::apps::svg
