// Pictures of curves: what they have of SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::apps::svg {

/// A whole file: these elements on white. font_size: in pixels, of text that says nothing else.
std::string picture(double width, double height, int font_size, const std::string& elements);

// Elements. Coordinates are pixels from the upper left; `style` is attributes, such as
// stroke="black".

std::string line(double x1, double y1, double x2, double y2, std::string_view style);
using Points = std::vector<std::pair<double, double>>;
std::string polyline(const Points& points, std::string_view style);
std::string polygon(const Points& points, std::string_view style);
/// anchor: which part of it is at x: "start", "middle" or "end".
std::string text(double x, double y, std::string_view anchor, std::string_view what,
                 std::string_view style = {});

/// As it may stand between tags.
std::string escaped(std::string_view text);
/// Of one of several curves; after a few they repeat.
std::string_view color(std::size_t curve);

} // namespace paceline::apps::svg
