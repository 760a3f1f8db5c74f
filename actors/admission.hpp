// The bound on the requests inside an engine.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace paceline::actors {

/// Counts requests from before they are looked at until their end is told, so that messages waiting
/// in mailboxes are bounded, too. Threads: any; nobody waits for another.
class Admission {
public:
  /// most: number of requests that may wait or run.
  explicit Admission(int most) : free_(std::make_shared<std::atomic<int>>(most)) {}

  /// One request's place; given back by the destructor.
  class Place {
  public:
    Place() = default;
    Place(Place&&) noexcept = default;
    Place& operator=(Place&& other) noexcept {
      leave();
      free_ = std::move(other.free_);
      return *this;
    }
    ~Place() { leave(); }

    void leave() {
      if (const auto free = std::exchange(free_, nullptr))
        free->fetch_add(1);
    }

  private:
    friend class Admission;
    explicit Place(std::shared_ptr<std::atomic<int>> free) : free_(std::move(free)) {}
    std::shared_ptr<std::atomic<int>> free_;
  };

  /// Takes a place. None: all are taken.
  std::optional<Place> enter() {
    int free = free_->load();
    while (free > 0)
      if (free_->compare_exchange_weak(free, free - 1))
        return Place(free_);
    return std::nullopt;
  }

private:
  std::shared_ptr<std::atomic<int>> free_;
};

} // namespace paceline::actors
