// A stack that a function runs on, and the switches to it and back. What the sanitizers must be
// told of them is here and nowhere else.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_emulation {

/// Memory is taken when it is touched.
class Stack {
public:
  static constexpr std::size_t bytes = std::size_t(256) << 10;

  Stack()
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ == MAP_FAILED)
      throw std::bad_alloc();
  }
  ~Stack() {
    forget();
    munmap(memory_, bytes);
  }
  Stack(const Stack&) = delete;
  /// What lay on it may be written over.
  void forget() {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(memory_, bytes);
#endif
  }
  std::byte* bottom() const {
    return static_cast<std::byte*>(memory_);
  }

private:
  void* memory_;
};

/// Runs `function` again and again, each time from its start. A fiber that is not resumed any more
/// is simply started anew: what was on its stack is forgotten. Threads: the one that made it.
class Fiber {
public:
  using Function = void (*)(void*);

#if defined(__SANITIZE_THREAD__)
  Fiber() : tsan_(__tsan_create_fiber(0)) {}
  ~Fiber() {
    __tsan_destroy_fiber(tsan_);
  }
#else
  Fiber() = default;
  ~Fiber() = default;
#endif
  Fiber(const Fiber&) = delete;

  void start(Function function, void* argument) {
    function_ = function;
    argument_ = argument;
    done_ = false;
    stack_.forget();
#if defined(__SANITIZE_ADDRESS__)
    fake_stack_ = nullptr;
#endif
    context_ =
        boost::context::detail::make_fcontext(stack_.bottom() + Stack::bytes, Stack::bytes, enter);
  }

  bool done() const {
    return done_;
  }
  const std::byte* stack() const {
    return stack_.bottom();
  }

  /// Runs it until it yields or its function returns.
  void resume() {
#if defined(__SANITIZE_ADDRESS__)
    void* mine = nullptr;
    __sanitizer_start_switch_fiber(&mine, stack_.bottom(), Stack::bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    host_tsan_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, 0);
#endif
    context_ = boost::context::detail::jump_fcontext(context_, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(mine, nullptr, nullptr);
#endif
  }

  /// Is called from within it.
  void yield() {
    leave(false);
    arrived();
  }

private:
  static void enter(boost::context::detail::transfer_t from) {
    auto* self = static_cast<Fiber*>(from.data);
    self->host_ = from.fctx;
    self->arrived();
    self->function_(self->argument_);
    self->done_ = true;
    self->leave(true);
    std::abort(); // Nobody resumes what is done.
  }

  void leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, host_bottom_, host_size_);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(host_tsan_, 0);
#endif
    host_ = boost::context::detail::jump_fcontext(host_, nullptr).fctx;
  }

  void arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack_, &host_bottom_, &host_size_);
#endif
  }

  Stack stack_;
  Function function_ = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
  boost::context::detail::fcontext_t context_ = nullptr;
  boost::context::detail::fcontext_t host_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack_ = nullptr;
  const void* host_bottom_ = nullptr;
  std::size_t host_size_ = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_ = nullptr;
  void* host_tsan_ = nullptr;
#endif
};

} // namespace cuda_emulation
