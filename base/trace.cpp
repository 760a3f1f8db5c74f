#include "base/trace.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::base {
namespace {

double microseconds(TimePoint t) {
  return std::chrono::duration<double, std::micro>(t.time_since_epoch()).count();
}

/// The inside of a JSON string (RFC 8259, section 7).
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

void Trace::span(const std::string& row, const std::string& name, TimePoint begin, TimePoint end,
                 std::string args) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= events_max_) {
    ++dropped_;
    return;
  }
  auto at = std::find(rows_.begin(), rows_.end(), row);
  if (at == rows_.end())
    at = rows_.insert(rows_.end(), row);
  events_.push_back({int(at - rows_.begin()), name, begin, end, std::move(args)});
}

void Trace::write(std::FILE* out) const {
  const auto put = [out](const std::string& text) { std::fputs(text.c_str(), out); };
  const std::lock_guard lock(mutex_);
  put(fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}},\"traceEvents\":[\n",
      dropped_));
  for (std::size_t i = 0; i < rows_.size(); ++i)
    put(fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)"
                    "\n",
                    i, escaped(rows_[i])));
  double origin = events_.empty() ? 0 : microseconds(events_.front().begin);
  for (const Event& e : events_)
    origin = std::min(origin, microseconds(e.begin));
  for (const Event& e : events_)
    put(fmt::format(
        R"({{"ph":"X","pid":1,"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
        "\n",
        e.row, escaped(e.name), microseconds(e.begin) - origin,
        std::max(0.0, microseconds(e.end) - microseconds(e.begin)), e.args));
  put(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"paceline"}}]})"
      "\n");
}

Result<void> Trace::write(const std::string& path) const {
  return write_file(path, [this](std::FILE* out) { write(out); });
}

} // namespace paceline::base
