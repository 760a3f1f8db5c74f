#include "execution/flight.hpp"

#include "execution/forward_pass.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::execution {

void Flight::line_up(ForwardPass& ahead, const std::shared_ptr<ForwardPass>& behind) {
  const scheduling::BatchEntry& built = behind->batch.entries.front();
  behind->flight.fate_ = Fate::open; // nobody else knows of it yet
  behind->flight.rows_ = {{.chain = built.round.chain,
                           .length = built.length,
                           .window = built.round.window,
                           .pages = built.feed.pages,
                           .own = {}}};
  bool over = false;
  {
    const std::lock_guard lock(ahead.flight.mutex_);
    over = ahead.flight.judged_ || ahead.flight.fate_ == Fate::ends;
    ahead.flight.behind_ = behind;
  }
  if (over)
    behind->flight.end();
}

Flight::Fate Flight::fate() const {
  const std::lock_guard lock(mutex_);
  return fate_;
}

std::size_t Flight::came_true() const {
  const std::lock_guard lock(mutex_);
  return came_true_;
}

void Flight::end() {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::open)
    fate_ = Fate::ends;
}

bool Flight::stand(std::vector<Standing> rows, std::vector<Standing> ahead) {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::ends)
    return false;
  read_ = true;
  rows_ = std::move(rows);
  ahead_ = std::move(ahead);
  return true;
}

std::vector<Standing> Flight::standings() const {
  std::vector<Standing> all;
  {
    const std::lock_guard lock(mutex_);
    all = ahead_;
    all.insert(all.end(), rows_.begin(), rows_.end());
  }
  std::erase_if(all, [](const Standing& standing) { return standing.chain->closed(); });
  return all;
}

// A pass that is gone has gone through all stages: there is nothing to be told behind it.
std::vector<scheduling::Onward> Flight::go_on(Flight& judged, const speculation::ChainRef& chain,
                                              int length) {
  std::vector<scheduling::Onward> on;
  for (auto pass = judged.close(); pass; pass = pass->flight.behind()) {
    const auto standing = pass->flight.follow(chain, length, on.empty());
    if (!standing)
      continue;
    length = standing->end();
    on.push_back({pass->batch.id, standing->length, standing->window,
                  standing->own.value_or(standing->length - 1)});
  }
  return on;
}

std::shared_ptr<ForwardPass> Flight::close() {
  const std::lock_guard lock(mutex_);
  judged_ = true;
  return behind_.lock();
}

std::shared_ptr<ForwardPass> Flight::behind() const {
  const std::lock_guard lock(mutex_);
  return behind_.lock();
}

/// next: nothing stays between it and what was judged.
std::optional<Standing> Flight::follow(const speculation::ChainRef& chain, int length, bool next) {
  const std::lock_guard lock(mutex_);
  if (fate_ == Fate::ends)
    return std::nullopt;
  const auto at = std::ranges::find_if(rows_, [&](const Standing& standing) {
    return standing.chain == chain && standing.length == length;
  });
  const bool there = at != rows_.end() && (read_ || !next || chain->bound() >= length + at->window);
  if (!there) {
    fate_ = Fate::ends;
    return std::nullopt;
  }
  if (next) {
    fate_ = Fate::goes_on;
    came_true_ = std::size_t(std::distance(rows_.begin(), at));
  }
  return *at;
}

} // namespace paceline::execution
