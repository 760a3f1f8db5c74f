// The bound on what waits or runs behind a door.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace paceline::base {

/// Counts places from before a request is looked at until just before its end is told, so that what
/// waits in between is bounded, too, and who hears of the end may ask again at once. An engine has
/// one, which knows alone what its callers' threads have given it, messages in mailboxes included;
/// a server has one, which knows alone what no engine has yet. Threads: any; nobody waits for
/// another.
class Admission {
public:
  /// most: number of places that may be taken.
  explicit Admission(int most) : most_(most), free_(std::make_shared<std::atomic<int>>(most)) {}

  /// Places that were taken at a time; given back by the destructor.
  class Place {
  public:
    Place() = default;
    Place(Place&&) noexcept = default;
    Place& operator=(Place&& other) noexcept {
      leave();
      free_ = std::move(other.free_);
      count_ = other.count_;
      return *this;
    }
    ~Place() { leave(); }

    void leave() {
      if (const auto free = std::exchange(free_, nullptr))
        free->fetch_add(count_);
    }

  private:
    friend class Admission;
    Place(std::shared_ptr<std::atomic<int>> free, int count)
        : free_(std::move(free)), count_(count) {}
    std::shared_ptr<std::atomic<int>> free_;
    int count_ = 0;
  };

  /// Takes that many places. None: there are not so many.
  std::optional<Place> enter(int count = 1) {
    int free = free_->load();
    while (free >= count)
      if (free_->compare_exchange_weak(free, free - count))
        return Place(free_, count);
    return std::nullopt;
  }

  int most() const { return most_; }
  /// Returns how many places are taken.
  int taken() const { return most_ - free_->load(); }

private:
  int most_;
  std::shared_ptr<std::atomic<int>> free_;
};

} // namespace paceline::base
