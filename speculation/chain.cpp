#include "speculation/chain.hpp"

#include <algorithm>
#include <iterator>

namespace paceline::speculation {

void DraftPace::observe(std::chrono::nanoseconds took, int rows) {
  auto& mean = rows > 0 ? fork_step : step;
  if (rows > 0)
    fork_rows += (rows - fork_rows) / (mean.count() == 0 ? 1 : 8);
  if (mean.count() == 0)
    mean = took;
  else // a stalled step says little about the next one
    mean += (std::min(took, 8 * mean) - mean) / 8;
}

void Chain::begin(int start, int window_end, int limit) {
  start_ = released_ = start;
  attempt_ = std::uint32_t(start);
  window_end_.store(window_end, std::memory_order_relaxed);
  limit_.store(limit, std::memory_order_relaxed);
  bound_.store(start, std::memory_order_relaxed);
  end_.store(nobody, std::memory_order_relaxed);
  drawn_.store(start, std::memory_order_release);
}

void Chain::begin_fork(int start, int end, int frontier, int fork) {
  begin(start, end, end);
  attempt_ = std::uint32_t(frontier) | std::uint32_t(fork) << limits::frontier_bits;
}

int Chain::next(int under_way) const {
  const int position = drawn_.load(std::memory_order_relaxed) + under_way;
  if (closed() || position >= reach())
    return -1;
  return position;
}

void Chain::bind(int end) {
  assert(end > drawn_.load(std::memory_order_relaxed));
  bound_.store(end, std::memory_order_seq_cst);
}

void Chain::put(int position, TokenId token, QRow q, const sampling::Guesses& guesses,
                Writer writer) {
  assert(position == drawn_.load(std::memory_order_relaxed));
  assert(position < bound_.load(std::memory_order_relaxed));
  slots_[std::size_t(position) % slots_.size()] = {token, std::move(q), guesses, writer};
  drawn_.store(position + 1, std::memory_order_seq_cst);
  announce();
}

void Chain::lengthen() {
  window_end_.fetch_add(1, std::memory_order_acq_rel);
  limit_.fetch_add(1, std::memory_order_acq_rel);
}

void Chain::end_at(int position) {
  end_.store(position, std::memory_order_seq_cst);
  announce();
}

void Chain::release_q(int position) {
  const int drawn = drawn_.load(std::memory_order_relaxed);
  for (released_ = std::max(released_, drawn - limits::chain_positions);
       released_ < std::min(position, drawn); ++released_)
    slots_[std::size_t(released_) % slots_.size()].q = nullptr;
}

int Chain::bound() const {
  return std::min(bound_.load(std::memory_order_seq_cst), end_.load(std::memory_order_seq_cst));
}

void Chain::extend(int window_end, int limit) {
  window_end_.store(window_end, std::memory_order_release);
  limit_.store(limit, std::memory_order_release);
}

void Chain::add_fork(int position, TokenId token, std::shared_ptr<Chain> fork) {
  const std::lock_guard lock(forks_mutex_);
  forks_.push_back({position, token, std::move(fork)});
}

std::vector<Chain::Fork> Chain::forks() const {
  const std::lock_guard lock(forks_mutex_);
  return forks_;
}

void Chain::on_forks(std::function<void()> added) {
  const std::lock_guard lock(forks_mutex_);
  forks_added_ = std::move(added);
}

void Chain::tell_forks() const {
  std::function<void()> added;
  {
    const std::lock_guard lock(forks_mutex_);
    added = forks_added_;
  }
  if (added)
    added();
}

std::shared_ptr<Chain> Chain::fork(int position, TokenId token) const {
  const std::lock_guard lock(forks_mutex_);
  for (const Fork& fork : forks_)
    if (fork.position == position && fork.token == token)
      return fork.chain;
  return nullptr;
}

std::uint64_t Chain::drop_forks(int position, const Chain* kept) {
  std::vector<Fork> dropped; // the forks are freed outside the lock
  {
    const std::lock_guard lock(forks_mutex_);
    const auto first = std::stable_partition(forks_.begin(), forks_.end(), [&](const Fork& fork) {
      return fork.position >= position || fork.chain.get() == kept;
    });
    dropped.assign(std::make_move_iterator(first), std::make_move_iterator(forks_.end()));
    forks_.erase(first, forks_.end());
  }
  std::uint64_t drawn = 0;
  for (const Fork& fork : dropped) {
    fork.chain->close();
    drawn += std::uint64_t(fork.chain->drawn() - fork.chain->start());
  }
  return drawn;
}

bool Chain::end_forks() {
  const std::lock_guard lock(forks_mutex_);
  return !forks_ended_.exchange(true, std::memory_order_acq_rel) && !forks_.empty();
}

void Chain::spent(std::chrono::nanoseconds time, const DraftPace& pace) {
  busy_.fetch_add(time.count(), std::memory_order_relaxed);
  step_.store(pace.step.count(), std::memory_order_relaxed);
  fork_step_.store(pace.fork_step.count(), std::memory_order_relaxed);
  fork_rows_.store(pace.fork_rows, std::memory_order_relaxed);
}

DraftPace Chain::pace() const {
  using std::chrono::nanoseconds;
  return {nanoseconds(step_.load(std::memory_order_relaxed)),
          nanoseconds(fork_step_.load(std::memory_order_relaxed)),
          fork_rows_.load(std::memory_order_relaxed)};
}

// The writer stores `drawn` and then reads `notify_position`; notify_at stores `notify_position`
// and then reads `drawn` (both sequentially consistent), so at least one of them sees the other.
void Chain::announce() {
  if (!settled(notify_position_.load(std::memory_order_seq_cst)))
    return;
  std::shared_ptr<Gate> gate;
  {
    const std::lock_guard lock(gate_mutex_);
    if (!settled(notify_position_.load(std::memory_order_relaxed)))
      return;
    notify_position_.store(nobody, std::memory_order_relaxed);
    gate = std::move(gate_);
    gate_ = nullptr;
  }
  if (gate)
    gate->arrive();
}

// Releases the replaced gate outside the lock: its callback owns objects that are not this class's.
void Chain::notify_at(int position, std::shared_ptr<Gate> gate) {
  {
    const std::lock_guard lock(gate_mutex_);
    gate_.swap(gate);
    notify_position_.store(position, std::memory_order_seq_cst);
  }
  announce();
}

} // namespace paceline::speculation
