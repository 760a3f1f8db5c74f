// Ctrl-C: the first one ends the work in hand in good order, the second ends the program at once.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace paceline::apps {

/// Takes SIGINT over for the whole program: it is blocked in the thread that makes this object and
/// in all that are started later, and awaited by a thread of its own. Make it first.
class Interrupt {
public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// Work that a first Ctrl-C ends through `action`; without any, Ctrl-C ends the program (status
  /// 130). The action runs on another thread, and never after the scope's end.
  class Scope {
  public:
    explicit Scope(Interrupt& owner) : owner_(&owner) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

  private:
    Interrupt* owner_;
  };
  [[nodiscard]] Scope on_first(std::function<void()> action);
  /// Calls `action` on every Ctrl-C until the scope's end: none ends the program, none is `seen`.
  [[nodiscard]] Scope on_each(std::function<void()> action);

  /// Whether there was a Ctrl-C, and a scope's action has been called.
  bool seen() const;

private:
  void await();
  void handle();

  mutable std::mutex mutex_;
  std::function<void()> action_;
  bool each_ = false;
  bool seen_ = false;
  bool closing_ = false;
  std::thread thread_;
};

} // namespace paceline::apps
