// The order in which actors have their turns. Like messages/caf.hpp this knows CAF's version.
#pragma once

#include "actors/limits.hpp"

#include <boost/circular_buffer.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <condition_variable>
#include <mutex>

namespace paceline::actors {

/// CAF's `sharing` policy, with one queue for all of a system's threads, whose memory is taken
/// ahead. CAF's own queue allocates when an actor has mail and is to have its turn; if that failed,
/// the message was in its mailbox already, and the actor never had a turn again. Each actor stands
/// in the queue at most once, so the queue needs no more room than there are actors.
class TurnsInOrder : public caf::policy::unprofiled {
public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}
    std::mutex mutex;
    std::condition_variable news;
    boost::circular_buffer<caf::resumable*> queue{limits::turns_reserved};
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* system, caf::resumable* job) {
    auto& data = d(system);
    const std::lock_guard lock(data.mutex);
    if (data.queue.full())
      data.queue.set_capacity(2 * data.queue.capacity());
    data.queue.push_back(job);
    data.news.notify_one();
  }
  template <class Worker>
  void external_enqueue(Worker* worker, caf::resumable* job) {
    central_enqueue(worker->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* worker, caf::resumable* job) {
    central_enqueue(worker->parent(), job);
  }
  template <class Worker>
  void resume_job_later(Worker* worker, caf::resumable* job) {
    central_enqueue(worker->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* worker) {
    auto& data = d(worker->parent());
    std::unique_lock lock(data.mutex);
    data.news.wait(lock, [&] { return !data.queue.empty(); });
    caf::resumable* job = data.queue.front();
    data.queue.pop_front();
    return job;
  }

  template <class Worker, class Function>
  void foreach_resumable(Worker*, Function) {}
  template <class Coordinator, class Function>
  void foreach_central_resumable(Coordinator* system, Function function) {
    auto& data = d(system);
    std::unique_lock lock(data.mutex);
    while (!data.queue.empty()) {
      caf::resumable* job = data.queue.front();
      data.queue.pop_front();
      lock.unlock(); // An actor that ends may make others' turns come.
      function(job);
      lock.lock();
    }
  }
};

} // namespace paceline::actors
