// What the documents' C++ snippets leave to their reader.
#pragma once

#include "paceline/asio.hpp"
#include "paceline/client.hpp"
#include "paceline/tokenizer.hpp"
#include "paceline/version.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using boost::asio::use_awaitable;

void complain(const std::string& text);
boost::asio::awaitable<void> send(std::string text);
