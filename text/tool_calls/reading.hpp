// Functions that read a text as it comes, and are suspended where it goes no further yet.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::text {

/// Which function goes on when there is more text.
struct Turn {
  std::coroutine_handle<> next = nullptr;
};

/// A function that reads from a Source and returns a T. It begins when it is awaited. A loop goes
/// from one function to the next (`Source::run`): handing over directly would need a stack as deep
/// as the text is long where the compiler does not optimise. In these functions co_await makes the
/// value of a variable and stands in no condition, since GCC 12 mistranslates some: it evaluates
/// operands of && that do not count, and orders frames wrongly.
template <class T>
class [[nodiscard]] Reading {
public:
  struct promise_type {
    Reading get_return_object() { return Reading(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Return {
        bool await_ready() noexcept { return false; }
        void await_suspend(Handle done) noexcept {
          done.promise().turn->next = done.promise().caller;
        }
        void await_resume() noexcept {}
      };
      return Return{};
    }
    void return_value(T value) { result.emplace(std::move(value)); }
    void unhandled_exception() noexcept { failure = std::current_exception(); }

    Turn* turn = nullptr;
    std::coroutine_handle<> caller = nullptr;
    std::optional<T> result;
    std::exception_ptr failure;
  };
  using Handle = std::coroutine_handle<promise_type>;

  explicit Reading(Handle handle) : handle_(handle) {}
  Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  Reading& operator=(Reading&&) = delete;
  ~Reading() {
    if (handle_)
      handle_.destroy();
  }

  /// Begins the outermost function.
  void begin(Turn& turn) {
    handle_.promise().turn = &turn;
    turn.next = handle_;
  }
  /// Throws what the function threw.
  void check() const {
    if (handle_.promise().failure)
      std::rethrow_exception(handle_.promise().failure);
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    handle_.promise().caller = caller;
    begin(*caller.promise().turn);
  }
  T await_resume() {
    check();
    return std::move(*handle_.promise().result);
  }

private:
  Handle handle_;
};

/// A text that comes in parts.
class Source {
public:
  void add(std::string_view text) { text_ += text; }
  void end() { ended_ = true; }

  /// Returns the next byte and does not move on. None: the text is over, or the bound of `hold` is
  /// reached.
  auto peek() {
    struct Peek {
      Source* source;
      bool await_ready() const noexcept { return source->knows_next(); }
      void await_suspend(std::coroutine_handle<> reader) noexcept { source->waiting_ = reader; }
      std::optional<char> await_resume() const noexcept { return source->next(); }
    };
    return Peek{this};
  }
  void skip() { ++at_; }

  std::size_t at() const { return dropped_ + at_; }
  /// Moves back to a place that was read since the last `release`.
  void go_back(std::size_t at) { at_ = at - dropped_; }
  /// What is read from here on may be gone back to, and is at most so much.
  void hold(std::size_t most) {
    release();
    bound_ = at_ + most;
  }
  /// Forgets what was read, and reads without a bound.
  void release() {
    bound_.reset();
    constexpr std::size_t worth_moving = 1u << 16;
    if (at_ < worth_moving && at_ < text_.size())
      return;
    dropped_ += at_;
    text_.erase(0, at_);
    at_ = 0;
  }

  /// Lets functions go on until they need text that is not there.
  void run(Turn& turn) {
    if (waiting_ && knows_next())
      turn.next = std::exchange(waiting_, nullptr);
    while (turn.next)
      std::exchange(turn.next, nullptr).resume();
  }

private:
  bool beyond_bound() const { return bound_ && at_ >= *bound_; }
  bool knows_next() const { return at_ < text_.size() || ended_ || beyond_bound(); }
  std::optional<char> next() const {
    if (at_ >= text_.size() || beyond_bound())
      return std::nullopt;
    return text_[at_];
  }

  std::string text_;
  std::size_t at_ = 0;      ///< Place in text_.
  std::size_t dropped_ = 0; ///< Bytes that stood before text_.
  bool ended_ = false;
  std::optional<std::size_t> bound_;
  std::coroutine_handle<> waiting_ = nullptr;
};

} // namespace paceline::text
