// The engine's operations for Boost.Asio: initiating functions that take completion tokens.
//
// Each gives what its synchronous namesake gives, errors as values with their hints, so callbacks,
// `use_future`, `use_awaitable`, `deferred` and `as_tuple` all see a Result or an optional event:
//
//   paceline::AsyncEngine service(io.get_executor(), engine);
//   auto stream = co_await service.async_submit(request, use_awaitable);
//   while (auto event = co_await stream->async_next(use_awaitable)) ...
//
// Threads: handlers run on their associated executor, or on the object's own if they have none,
// never on a thread of the engine, which only posts. An object is used by one thread (or strand) at
// a time; an operation's cancellation slot is emitted on its executor, as everywhere in Asio.
// Executors' contexts must outlive the engine: declare the io_context first.
//
// Cancellation: cancelling `async_next` (any type, by a slot, `operator||`, a parent coroutine)
// ends the wait: it completes with no event, takes none, and the request goes on. To end the
// request, call AsyncStream::cancel or destroy the stream. Cancelling `async_complete` cancels the
// whole request; it still completes, with what had come until then.
#pragma once

#include "paceline/engine.hpp"

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>

namespace paceline {
namespace detail {

struct OpenStream {
  Stream stream;
  std::optional<Event> kept; ///< Event that a cancelled wait had taken; the next wait gets it.
};
using SharedStream = std::shared_ptr<OpenStream>;

/// What is ended when an operation that waits for an event is cancelled.
enum class Cancels { wait, request };

/// A handler, and the work that keeps the executors it needs running until it has been called.
template <class Handler>
class Pending {
public:
  using Executor = boost::asio::associated_executor_t<Handler, boost::asio::any_io_executor>;

  Pending(Handler handler, const boost::asio::any_io_executor& own)
      : work_(boost::asio::get_associated_executor(handler, own)), own_work_(own),
        handler_(std::move(handler)) {}

  Executor executor() const { return work_.get_executor(); }
  auto slot() const { return boost::asio::get_associated_cancellation_slot(handler_); }

  /// Calls the handler; to be called once, on `executor()`.
  template <class... Values>
  void complete(Values&&... values) {
    if (auto registered = slot(); registered.is_connected())
      registered.clear();
    Handler handler = std::move(handler_);
    std::move(handler)(std::forward<Values>(values)...);
  }

private:
  boost::asio::executor_work_guard<Executor> work_;
  boost::asio::executor_work_guard<boost::asio::any_io_executor> own_work_;
  Handler handler_;
};

/// Waits for an event of a stream. The engine's thread only posts, and only once.
template <class Handler>
class Next : public std::enable_shared_from_this<Next<Handler>> {
public:
  Next(Handler handler, const boost::asio::any_io_executor& own, SharedStream stream,
       Cancels cancels)
      : pending_(std::move(handler), own), executor_(pending_.executor()), own_(own),
        stream_(std::move(stream)), cancels_(cancels) {}

  /// time: how long to wait at most; none: without end.
  void start(std::optional<std::chrono::nanoseconds> time) {
    const std::lock_guard starting(starting_);
    if (auto slot = pending_.slot(); slot.is_connected())
      slot.assign([self = this->weak_from_this()](boost::asio::cancellation_type) {
        if (const auto waits = self.lock())
          waits->cancel();
      });
    event_ = stream_->kept ? std::exchange(stream_->kept, {}) : stream_->stream.try_next();
    if (event_)
      return wake();
    if (time) {
      timer_.emplace(own_, *time);
      timer_->async_wait([self = this->shared_from_this()](const auto& called_off) {
        if (!called_off)
          self->wake();
      });
    }
    stream_->stream.on_ready([self = this->shared_from_this()] { self->wake(); });
  }

private:
  void cancel() { // on the executor
    if (cancels_ == Cancels::wait) {
      called_off_ = true;
      wake();
    } else if (stream_) {
      stream_->stream.cancel();
    }
  }
  void wake() {
    if (!posted_.exchange(true))
      boost::asio::post(executor_, [self = this->shared_from_this()] { self->finish(); });
  }
  void finish() {
    const SharedStream stream = settle(); // the handler may let go of its own
    if (called_off_)
      stream->kept = std::exchange(event_, {});
    pending_.complete(std::move(event_));
  }
  /// Ends all ways of waking this object, and takes the event that there is.
  SharedStream settle() {
    const std::lock_guard started(starting_);
    timer_.reset(); // it wakes nobody any more
    if (!event_) {
      stream_->stream.on_ready(nullptr);
      event_ = stream_->stream.try_next();
    }
    return std::move(stream_);
  }

  Pending<Handler> pending_;
  typename Pending<Handler>::Executor executor_;
  boost::asio::any_io_executor own_;
  std::optional<boost::asio::steady_timer> timer_;
  SharedStream stream_;
  std::optional<Event> event_;
  const Cancels cancels_;
  bool called_off_ = false; ///< Touched on the executor alone, like the cancellation slot.
  std::atomic<bool> posted_{false};
  std::mutex starting_; ///< The operation may be finished on another thread than it is started on.
};

/// Starts an operation that waits for an event.
template <class Token>
auto async_event(boost::asio::any_io_executor executor, SharedStream stream, Cancels cancels,
                 std::optional<std::chrono::nanoseconds> time, Token&& token) {
  return boost::asio::async_initiate<Token, void(std::optional<Event>)>(
      [executor = std::move(executor), stream = std::move(stream), cancels, time](auto handler) {
        using Handler = std::decay_t<decltype(handler)>;
        std::make_shared<Next<Handler>>(std::move(handler), executor, stream, cancels)->start(time);
      },
      token);
}

template <class Submit>
struct Gather;

} // namespace detail

/// One request's events. Destroying the stream cancels the request; an operation that waits then
/// completes with what the request still has to say.
class AsyncStream {
public:
  using executor_type = boost::asio::any_io_executor;

  AsyncStream(executor_type executor, Stream stream)
      : executor_(std::move(executor)),
        stream_(std::make_shared<detail::OpenStream>(detail::OpenStream{std::move(stream), {}})) {}
  AsyncStream(AsyncStream&&) noexcept = default;
  AsyncStream& operator=(AsyncStream&& other) noexcept {
    AsyncStream old(std::move(*this)); // cancels
    executor_ = std::move(other.executor_);
    stream_ = std::move(other.stream_);
    return *this;
  }
  ~AsyncStream() {
    if (stream_.use_count() > 1) // an operation still waits; else ~Stream does it
      stream_->stream.cancel();
  }

  /// Gives the next event; none after `Finished`, or if the wait was cancelled. One wait at a time.
  /// Signature: void(std::optional<Event>).
  template <class Token>
  auto async_next(Token&& token) {
    return detail::async_event(executor_, stream_, detail::Cancels::wait, {},
                               std::forward<Token>(token));
  }
  /// Waits for at most `time`: gives none if nothing came in that time, and the request goes on.
  template <class Token>
  auto async_next_for(std::chrono::nanoseconds time, Token&& token) {
    return detail::async_event(executor_, stream_, detail::Cancels::wait, time,
                               std::forward<Token>(token));
  }

  /// `told` is called on the executor once `Finished` has come, even if events before it are still
  /// unread.
  void on_end(std::function<void()> told) {
    stream_->stream.on_end(
        [executor = executor_, told = std::move(told)] { boost::asio::post(executor, told); });
  }

  /// Asks for the end of the request; the stream still delivers `Finished`.
  void cancel() { stream_->stream.cancel(); }
  std::uint64_t id() const { return stream_->stream.id(); }
  executor_type get_executor() const { return executor_; }

private:
  template <class>
  friend struct detail::Gather;

  executor_type executor_;
  detail::SharedStream stream_;
};

namespace detail {

/// The steps of async_complete. submit: works like async_submit, of any object that gives an
/// AsyncStream. A Gather can be copied, as Asio needs for operations that have not begun
/// (`deferred`).
template <class Submit>
struct Gather {
  Submit submit;
  Request request;
  std::shared_ptr<AsyncStream> stream{};
  Result<Completion> whole{}; // GCC 14 warns wrongly of one that is made where it is handed over.

  template <class Self>
  void operator()(Self& self) {
    self.reset_cancellation_state(boost::asio::enable_total_cancellation());
    const Submit with = submit; // `self` moves, and this object with it
    Request asked = std::move(request);
    with(std::move(asked), std::move(self));
  }
  template <class Self>
  void operator()(Self& self, Result<AsyncStream> opened) {
    if (!opened)
      return self.complete(tl::unexpected(std::move(opened.error())));
    stream = std::make_shared<AsyncStream>(std::move(*opened));
    if (self.cancelled() != boost::asio::cancellation_type::none)
      stream->cancel(); // asked for before there was a stream
    read(self);
  }
  template <class Self>
  void operator()(Self& self, std::optional<Event> event) {
    if (!event)
      event = closed();
    if (const auto* delta = std::get_if<Delta>(&*event))
      whole->add(*delta);
    auto* end = std::get_if<Finished>(&*event);
    if (!end)
      return read(self);
    whole->end = std::move(*end);
    self.complete(std::move(whole));
  }

private:
  static Finished closed() {
    Finished end;
    end.reason = FinishReason::error;
    end.error = Error{ErrorCode::unavailable, "the engine was closed"};
    return end;
  }
  template <class Self>
  void read(Self& self) {
    const AsyncStream& from = *stream; // `self` moves
    async_event(from.executor_, from.stream_, Cancels::request, {}, std::move(self));
  }
};

/// Posts a pending handler's call to its executor.
template <class Handler, class... Values>
void hand_over(Pending<Handler> pending, Values... values) {
  const auto executor = pending.executor();
  auto call = [pending = std::move(pending), ... values = std::move(values)]() mutable {
    pending.complete(std::move(values)...);
  };
  boost::asio::post(executor, std::move(call));
}

} // namespace detail

/// An engine seen from an executor. Any number of these may share one engine, which must outlive
/// them and the streams they gave.
class AsyncEngine {
public:
  using executor_type = boost::asio::any_io_executor;

  /// executor: runs the checks of requests and the encoding of their prompts (about a microsecond a
  /// token), and the handlers that have no executor of their own.
  AsyncEngine(executor_type executor, Engine& engine)
      : executor_(std::move(executor)), engine_(&engine) {}

  /// Submits a request, as Engine::submit does. Signature: void(Result<AsyncStream>).
  template <class Token>
  auto async_submit(Request request, Token&& token) {
    return boost::asio::async_initiate<Token, void(Result<AsyncStream>)>(
        [executor = executor_, engine = engine_](auto handler, Request asked) {
          using Handler = std::decay_t<decltype(handler)>;
          detail::Pending<Handler> pending(std::move(handler), executor);
          auto submit = [executor, engine, asked = std::move(asked),
                         pending = std::move(pending)]() mutable {
            auto stream = engine->submit(asked).map(
                [&](Stream&& opened) { return AsyncStream(executor, std::move(opened)); });
            detail::hand_over(std::move(pending), std::move(stream));
          };
          boost::asio::post(executor, std::move(submit));
        },
        token, std::move(request));
  }

  /// Submits a request and waits for its end. Signature: void(Result<Completion>).
  template <class Token>
  auto async_complete(Request request, Token&& token);

  /// Does what Engine::shutdown does without blocking the executor; call it once. Destroying this
  /// object waits for its end. Signature: void(Result<void>).
  template <class Token>
  auto async_shutdown(std::chrono::milliseconds drain, Token&& token) {
    return boost::asio::async_initiate<Token, void(Result<void>)>(
        [this, drain](auto handler) {
          detail::Pending<std::decay_t<decltype(handler)>> pending(std::move(handler), executor_);
          closer_ = std::jthread([engine = engine_, drain, pending = std::move(pending)]() mutable {
            detail::hand_over(std::move(pending), engine->shutdown(drain));
          });
        },
        token);
  }

  Engine& engine() const { return *engine_; }
  executor_type get_executor() const { return executor_; }

private:
  executor_type executor_;
  Engine* engine_;
  std::jthread closer_; ///< Waits for the engine; joined with this object.
};

template <class Token>
auto AsyncEngine::async_complete(Request request, Token&& token) {
  auto submit = [executor = executor_, engine = engine_](Request asked, auto handler) {
    AsyncEngine(executor, *engine).async_submit(std::move(asked), std::move(handler));
  };
  return boost::asio::async_compose<Token, void(Result<Completion>)>(
      detail::Gather<decltype(submit)>{std::move(submit), std::move(request)}, token, executor_);
}

} // namespace paceline
