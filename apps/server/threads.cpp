#include "apps/server/threads.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>

namespace paceline::apps::serve {
namespace asio = boost::asio;

asio::awaitable<void> run_on(asio::thread_pool& threads, asio::any_io_executor home,
                             std::function<void()> work) {
  std::exception_ptr thrown;
  const auto working = [&](auto handler) {
    asio::post(threads, [&work, &thrown, handler = std::move(handler),
                         back = asio::make_work_guard(home)]() mutable {
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
      asio::post(back.get_executor(), std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(working,
                                                                       asio::use_awaitable);
  if (thrown)
    std::rethrow_exception(thrown);
}

} // namespace paceline::apps::serve
