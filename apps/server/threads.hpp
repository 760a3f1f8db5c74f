// Work that a coroutine of the server waits for while a thread of its own does it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>

namespace paceline::apps::serve {

/// Runs `work` on one of `threads`; what it throws comes back here. home: the server's executor,
/// which has something to do until then.
boost::asio::awaitable<void> run_on(boost::asio::thread_pool& threads,
                                    boost::asio::any_io_executor home, std::function<void()> work);

} // namespace paceline::apps::serve
