#include "apps/terminal/pull/progress.hpp"

#include "apps/console/output.hpp"

#include <fmt/format.h>

namespace paceline::apps::pull {

void Progress::fetch(std::uint64_t have) {
  fetching_ = true;
  last_ = have;
  if (fetched_ == 0)
    begin_ = std::chrono::steady_clock::now();
}

void Progress::show(std::uint64_t have) {
  const std::uint64_t all = before_ + have;
  const double done = total_ > 0 ? double(all) / double(total_) : 1;
  if (!fetching_)
    return line_.show(fmt::format("{}: checking what is here", name_), done);
  fetched_ += have > last_ ? have - last_ : 0;
  last_ = have;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  const double rate = took.count() > 0 ? double(fetched_) / took.count() : 0;
  line_.show(fmt::format("{}: {} of {}, {}/s", name_, human_bytes(all), human_bytes(total_),
                         human_bytes(std::uint64_t(rate))),
             done);
}

void Progress::remark(const std::string& text) {
  line_.clear();
  note("paceline: " + text + "\n");
}

} // namespace paceline::apps::pull
