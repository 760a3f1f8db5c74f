// Work that a coroutine of the server waits for while another thread does it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>

namespace paceline::apps::serve {

/// Runs `work` on one of `threads`; its exceptions come back here. home: the server's executor,
/// which is kept from running out of work until then.
boost::asio::awaitable<void> run_on(boost::asio::thread_pool& threads,
                                    boost::asio::any_io_executor home, std::function<void()> work);

} // namespace paceline::apps::serve
