#include "base/callbacks.hpp"

#include "base/limits.hpp"
#include "base/own_process.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace paceline::base {

struct Callbacks::State : std::enable_shared_from_this<State> {
  explicit State(Mode how) : mode(how) {}

  void work();
  // These two need `mutex` held.
  /// Has one more thread look for work, unless one is on its way.
  void call_one();
  void add_thread();

  const Mode mode;
  std::mutex mutex;
  std::condition_variable news;
  std::deque<Function> jobs;
  std::vector<std::thread> threads;
  int idle = 0;
  bool coming = false; ///< A thread was woken or begun, and has not looked yet.
  bool ended = false;
  std::atomic<std::uint64_t> failures{0};
  OwnProcess process;
};

// A thread that takes a function wakes the next thread if more are waiting. Functions that only
// post something are done before that one is awake, and those that wait keep nobody waiting.
void Callbacks::State::work() {
  std::unique_lock lock(mutex);
  coming = false;
  while (!ended) {
    if (jobs.empty()) {
      ++idle;
      news.wait(lock);
      --idle;
      coming = false;
      continue;
    }
    Function job = std::move(jobs.front());
    jobs.pop_front();
    if (!jobs.empty())
      call_one();
    lock.unlock();
    job();
    job = nullptr; // destroys what the function held, which may be the last reference to its engine
    lock.lock();
  }
}

void Callbacks::State::call_one() {
  if (coming)
    return;
  if (idle > 0) {
    coming = true;
    news.notify_one();
  } else if (int(threads.size()) < limits::callback_threads_max) {
    try {
      add_thread();
    } catch (const std::exception&) {
      // The system has no thread left, or no memory for one: the threads that exist do the work.
    }
  }
}

void Callbacks::State::add_thread() {
  threads.emplace_back([self = shared_from_this()] { self->work(); });
  coming = true;
}

Callbacks::Callbacks(Mode mode) : state_(std::make_shared<State>(mode)) {}

Callbacks::~Callbacks() {
  if (!state_->process.here()) { // the threads are the other process's: nothing may wait for them
    new std::shared_ptr<State>(state_);
    return;
  }
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    threads.swap(state_->threads);
  }
  state_->news.notify_all();
  for (std::thread& thread : threads)
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
}

void Callbacks::start() {
  const std::lock_guard lock(state_->mutex);
  if (state_->mode == Mode::threads && state_->threads.empty())
    state_->add_thread();
}

void Callbacks::post(Function job) {
  const std::lock_guard lock(state_->mutex);
  state_->jobs.push_back(std::move(job));
  if (state_->mode == Mode::threads)
    state_->call_one();
}

void Callbacks::run_pending() {
  for (;;) {
    Function job;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->jobs.empty())
        return;
      job = std::move(state_->jobs.front());
      state_->jobs.pop_front();
    }
    job();
  }
}

bool Callbacks::pending() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->jobs.empty();
}

void Callbacks::call(const Function& function) noexcept {
  try {
    function();
  } catch (...) {
    state_->failures.fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint64_t Callbacks::failures() const {
  return state_->failures.load(std::memory_order_relaxed);
}

} // namespace paceline::base
