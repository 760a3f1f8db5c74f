#include "base/trace.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

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

Result<void> Trace::write(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const std::string temporary = path + ".part";
  std::ofstream out(temporary, std::ios::trunc);
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":" << dropped_
      << "},\"traceEvents\":[\n";
  for (std::size_t i = 0; i < rows_.size(); ++i)
    out << fmt::format(
               R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)", i,
               escaped(rows_[i]))
        << '\n';
  double origin = events_.empty() ? 0 : microseconds(events_.front().begin);
  for (const Event& e : events_)
    origin = std::min(origin, microseconds(e.begin));
  for (const Event& e : events_)
    out << fmt::format(
               R"({{"ph":"X","pid":1,"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)",
               e.row, escaped(e.name), microseconds(e.begin) - origin,
               std::max(0.0, microseconds(e.end) - microseconds(e.begin)), e.args)
        << '\n';
  out << R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"paceline"}}]})" << '\n';
  out.close();
  std::error_code failed;
  if (out)
    std::filesystem::rename(temporary, path, failed);
  if (!out || failed) {
    std::remove(temporary.c_str());
    return fail(ErrorCode::unavailable, "cannot write the trace " + path,
                "check the folder and the free space");
  }
  return {};
}

} // namespace paceline::base
