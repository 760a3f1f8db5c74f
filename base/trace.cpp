#include "base/trace.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace paceline::base {
namespace {

double microseconds(TimePoint t) {
  return std::chrono::duration<double, std::micro>(t.time_since_epoch()).count();
}

/// Escapes a text for the inside of a JSON string (RFC 8259, section 7).
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", int(c));
    else
      out += c;
  }
  return out;
}

} // namespace

void LaneWorkQueue::add(LaneWork work) {
  const std::lock_guard lock(mutex_);
  if (works_.size() >= most_) {
    works_.pop_front();
    ++lost_;
  }
  works_.push_back(std::move(work));
}

std::vector<LaneWork> LaneWorkQueue::take() {
  const std::lock_guard lock(mutex_);
  std::vector<LaneWork> all(std::make_move_iterator(works_.begin()),
                            std::make_move_iterator(works_.end()));
  works_.clear();
  return all;
}

std::uint64_t LaneWorkQueue::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void Trace::watch(std::shared_ptr<LaneWorkQueue> queue) {
  const std::lock_guard lock(mutex_);
  queues_.push_back(std::move(queue));
  watchers_ = int(queues_.size());
}

void Trace::unwatch(const std::shared_ptr<LaneWorkQueue>& queue) {
  const std::lock_guard lock(mutex_);
  std::erase(queues_, queue);
  watchers_ = int(queues_.size());
}

void Trace::show(const LaneWork& work) const {
  for (const auto& queue : queues_)
    queue->add(work);
}

void Trace::span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
                 std::string args) {
  const std::lock_guard lock(mutex_);
  add(0, row, name, begin, end, std::move(args));
}

void Trace::lane_span(const std::string& row, const std::string& name, TimePoint begin,
                      TimePoint end, std::string args) {
  const std::lock_guard lock(mutex_);
  show({row, name, begin, end, args});
  add(0, row, name, begin, end, std::move(args));
}

void Trace::span_there(const std::string& machine, const std::string& row, const std::string& name,
                       TimePoint begin, TimePoint end) {
  const std::lock_guard lock(mutex_);
  show({machine + " " + row, name, begin, end, {}});
  add(machine_of(machine), row, name, begin, end, {});
}

void Trace::set_clock(const std::string& machine, const RemoteClock::Estimate& clock) {
  const std::lock_guard lock(mutex_);
  Machine& m = machines_[std::size_t(machine_of(machine))];
  m.clock = clock;
  m.uncertainty_max = std::max(m.uncertainty_max, clock.uncertainty);
}

int Trace::machine_of(const std::string& name) {
  auto at = std::ranges::find(machines_, name, &Machine::name);
  if (at == machines_.end())
    at = machines_.insert(at, {.name = name, .clock = RemoteClock::Estimate{}});
  return int(at - machines_.begin());
}

void Trace::add(int machine, const std::string& row, const std::string& name, TimePoint begin,
                TimePoint end, std::string args) {
  if (events_.size() >= events_max_) {
    ++dropped_;
    return;
  }
  const Row wanted{machine, row};
  auto at = std::find(rows_.begin(), rows_.end(), wanted);
  if (at == rows_.end())
    at = rows_.insert(rows_.end(), wanted);
  events_.push_back({int(at - rows_.begin()), name, begin, end, std::move(args)});
}

/// Returns the member of otherData about other machines; empty if there are none.
std::string Trace::clocks() const {
  std::string text;
  for (std::size_t i = 0; i < machines_.size(); ++i)
    if (const Machine& m = machines_[i]; m.clock)
      text += fmt::format(R"({}{{"name":"{}","pid":{},"clock_ahead_us":{:.3f},"uncertainty_us":)"
                          R"({:.3f},"uncertainty_max_us":{:.3f}}})",
                          text.empty() ? R"(,"machines":[)" : ",", escaped(m.name), i + 1,
                          1e6 * seconds(m.clock->ahead), 1e6 * seconds(m.clock->uncertainty),
                          1e6 * seconds(m.uncertainty_max));
  return text.empty() ? text : text + "]";
}

void Trace::write(std::FILE* out) const {
  const auto put = [out](const std::string& text) { std::fputs(text.c_str(), out); };
  const std::lock_guard lock(mutex_);
  put(fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}{}}},\"traceEvents\":[\n",
      dropped_, clocks()));
  for (std::size_t i = 0; i < rows_.size(); ++i)
    put(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)"
                    "\n",
                    rows_[i].machine + 1, i, escaped(rows_[i].name)));
  double origin = events_.empty() ? 0 : microseconds(events_.front().begin);
  for (const Event& e : events_)
    origin = std::min(origin, microseconds(e.begin));
  for (const Event& e : events_)
    put(fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
        "\n",
        rows_[std::size_t(e.row)].machine + 1, e.row, escaped(e.name),
        microseconds(e.begin) - origin, std::max(0.0, microseconds(e.end) - microseconds(e.begin)),
        e.args));
  for (std::size_t i = machines_.size(); i-- > 0;)
    put(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}"}}}}{})"
                    "\n",
                    i + 1, escaped(machines_[i].name), i == 0 ? "]}" : ","));
}

Result<void> Trace::write(const std::string& path) const {
  return write_file(path, [this](std::FILE* out) { write(out); });
}

} // namespace paceline::base
