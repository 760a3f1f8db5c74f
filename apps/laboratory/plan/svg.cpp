// A picture of devices over time.
#include "apps/laboratory/svg.hpp"
#include "apps/laboratory/plan/report.hpp"
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
/// Pictures of more requests show only the first ones.
constexpr std::size_t requests_max = 400;
constexpr double seconds_max = 20;

/// The time of a request in stages of its group.
struct Piece {
  int model;
  int group;
  int stage; ///< The first of `stages`.
  int stages;
  double begin;
  double end;
};

/// Requests that an engine answers together lie over each other.
constexpr double together_opacity = 0.35;

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
               if (by.side_by_side())
                 add_whole(arrival, sent);
               else
                 add(arrival.model, sent.group, by);
             });
    return text();
  }

private:
  void add(int model, int group, const placement::Dispatcher& dispatcher) {
    const auto ends = dispatcher.busy_until(group);
    const auto seconds = dispatcher.stages(model, group);
    for (std::size_t stage = 0; stage < ends.size(); ++stage) {
      pieces_.push_back({model, group, int(stage), 1, ends[stage] - seconds[stage], ends[stage]});
      seconds_ = std::max(seconds_, ends[stage]);
    }
  }

  /// Adds a request that was in all stages of its group from its arrival on.
  void add_whole(const placement::Arrival& arrival, const placement::Dispatch& sent) {
    const int stages = placement_.groups[std::size_t(sent.group)].shape.pipeline;
    pieces_.push_back({arrival.model, sent.group, 0, stages, arrival.seconds, sent.finish});
    seconds_ = std::max(seconds_, sent.finish);
    opacity_ = together_opacity;
  }

  double x(double seconds) const { return plot_left + plot_width * seconds / seconds_; }

  std::string text() {
    for (const placement::Group& group : placement_.groups)
      rows_.insert(rows_.end(), group.devices.begin(), group.devices.end());
    const double height = plot_top + row_height * double(rows_.size()) + 34;
    std::string elements = svg::text(
        10, 20, "start",
        fmt::format(
            "Devices by time: the first {:.3g} s; a color is a model, a line divides groups",
            seconds_),
        "font-size=\"14\"");
    elements += rows();
    for (const Piece& piece : pieces_)
      elements += rectangle(piece);
    for (int tick = 0; tick <= 4; ++tick)
      elements += svg::text(x(seconds_ * tick / 4), height - 14, "middle",
                            fmt::format("{:.3g} s", seconds_ * tick / 4));
    return svg::picture(plot_left + plot_width + 20, height, 10, elements);
  }

  std::string rows() const {
    std::string elements;
    double y = plot_top;
    for (const placement::Group& group : placement_.groups) {
      elements += svg::line(10, y, plot_left + plot_width, y, "stroke=\"#999\"");
      for (const int device : group.devices) {
        elements +=
            svg::text(plot_left - 8, y + 11, "end", input_.device_names[std::size_t(device)]);
        y += row_height;
      }
    }
    return elements;
  }

  std::string rectangle(const Piece& piece) const {
    const placement::Group& group = placement_.groups[std::size_t(piece.group)];
    const int device = group.devices[std::size_t(piece.stage * group.shape.tensor)];
    const auto row = std::find(rows_.begin(), rows_.end(), device) - rows_.begin();
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" "
        "fill=\"hsl({},60%,60%)\" fill-opacity=\"{}\" stroke=\"white\" "
        "stroke-width=\"0.5\"><title>{}: "
        "{:.3f} to {:.3f} s</title></rect>\n",
        x(piece.begin), plot_top + row_height * double(row) + 2, x(piece.end) - x(piece.begin),
        row_height * group.shape.tensor * piece.stages - 3, piece.model * 137 % 360, opacity_,
        svg::escaped(input_.problem.models[std::size_t(piece.model)].name), piece.begin, piece.end);
  }

  const Input& input_;
  const placement::Placement& placement_;
  std::vector<Piece> pieces_;
  std::vector<int> rows_; ///< Row of each device, counted from the top.
  double seconds_ = 1e-3;
  double opacity_ = 1;
};

} // namespace

std::string placement_svg(const Input& input, const placement::Placement& placement,
                          const placement::Workload& run) {
  return Picture(input, placement).draw(run);
}

} // namespace paceline::apps::plan
