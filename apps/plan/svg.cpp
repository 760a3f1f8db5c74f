// Devices by time as a picture.
#include "apps/plan/report.hpp"
#include "placement/simulator.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace paceline::apps::plan {
namespace {

constexpr double plot_left = 110;
constexpr double plot_width = 860;
constexpr double plot_top = 46;
constexpr double row_height = 14;
/// A picture of more requests shows none of them.
constexpr std::size_t requests_max = 400;
constexpr double seconds_max = 20;

/// A request in a stage of its group.
struct Piece {
  int model;
  int group;
  int stage;
  double begin;
  double end;
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

class Picture {
public:
  Picture(const Input& input, const placement::Placement& placement)
      : input_(input), placement_(placement) {}

  std::string draw(const placement::Workload& run) {
    placement::Workload beginning = run;
    if (beginning.arrivals.size() > requests_max)
      beginning.arrivals.resize(requests_max);
    std::erase_if(beginning.arrivals, [](const auto& a) { return a.seconds > seconds_max; });
    placement::Dispatcher dispatcher(input_.problem, placement_);
    simulate(dispatcher, input_.problem, beginning,
             [this](const auto& arrival, const auto& sent, const auto& by) {
               add(arrival.model, sent.group, by);
             });
    return text();
  }

private:
  void add(int model, int group, const placement::Dispatcher& dispatcher) {
    const auto ends = dispatcher.busy_until(group);
    const auto seconds = dispatcher.stages(model, group);
    for (std::size_t stage = 0; stage < ends.size(); ++stage) {
      pieces_.push_back({model, group, int(stage), ends[stage] - seconds[stage], ends[stage]});
      seconds_ = std::max(seconds_, ends[stage]);
    }
  }

  double x(double seconds) const { return plot_left + plot_width * seconds / seconds_; }

  std::string text() {
    for (const placement::Group& group : placement_.groups)
      rows_.insert(rows_.end(), group.devices.begin(), group.devices.end());
    const double height = plot_top + row_height * double(rows_.size()) + 34;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"10\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"10\" y=\"20\" font-size=\"14\">Devices by time: the first {2:.3g} s; a color is "
        "a model, a line divides groups</text>\n",
        plot_left + plot_width + 20, height, seconds_);
    svg += rows();
    for (const Piece& piece : pieces_)
      svg += rectangle(piece);
    for (int tick = 0; tick <= 4; ++tick)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.3g} s</text>\n",
                         x(seconds_ * tick / 4), height - 14, seconds_ * tick / 4);
    return svg + "</svg>\n";
  }

  std::string rows() const {
    std::string svg;
    double y = plot_top;
    for (const placement::Group& group : placement_.groups) {
      svg += fmt::format("<line x1=\"10\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" stroke=\"#999\"/>\n", y,
                         plot_left + plot_width);
      for (const int device : group.devices) {
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", plot_left - 8,
                           y + 11, escaped(input_.device_names[std::size_t(device)]));
        y += row_height;
      }
    }
    return svg;
  }

  std::string rectangle(const Piece& piece) const {
    const placement::Group& group = placement_.groups[std::size_t(piece.group)];
    const int device = group.devices[std::size_t(piece.stage * group.shape.tensor)];
    const auto row = std::find(rows_.begin(), rows_.end(), device) - rows_.begin();
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" "
        "fill=\"hsl({},60%,60%)\" stroke=\"white\" stroke-width=\"0.5\"><title>{}: "
        "{:.3f} to {:.3f} s</title></rect>\n",
        x(piece.begin), plot_top + row_height * double(row) + 2, x(piece.end) - x(piece.begin),
        row_height * group.shape.tensor - 3, piece.model * 137 % 360,
        escaped(input_.problem.models[std::size_t(piece.model)].name), piece.begin, piece.end);
  }

  const Input& input_;
  const placement::Placement& placement_;
  std::vector<Piece> pieces_;
  std::vector<int> rows_; ///< Devices from the top.
  double seconds_ = 1e-3;
};

} // namespace

std::string placement_svg(const Input& input, const placement::Placement& placement,
                          const placement::Workload& run) {
  return Picture(input, placement).draw(run);
}

} // namespace paceline::apps::plan
