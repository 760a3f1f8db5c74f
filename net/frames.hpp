// What crosses a connection, as plain values (paceline.proto has the schema and what each means).
#pragma once

#include "paceline/event.hpp"
#include "paceline/request.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

namespace paceline::net {

/// A client's number of a request; 0 is none.
using RequestNumber = std::uint64_t;

struct Hello {
  std::uint32_t version_min = 0;
  std::uint32_t version_max = 0;
  std::string api_key;
  std::string client;
};

struct Welcome {
  std::uint32_t version = 0;
  std::string server;
  std::string model;
  std::chrono::milliseconds idle{};
  std::uint64_t frame_bytes_max = 0;
  bool ready = false;
};

struct Submit {
  RequestNumber number = 0;
  Request request;
};

struct Cancel {
  RequestNumber number = 0;
};

struct Ping {
  std::uint64_t number = 0;
};

struct Pong {
  std::uint64_t number = 0;
  bool ready = false;
  bool healthy = false;
};

struct Accepted {
  RequestNumber number = 0;
};

/// number 0: of the connection.
struct Failure {
  RequestNumber number = 0;
  Error error;
};

struct Draining {};

/// An event of a request, its last one too.
struct Happened {
  RequestNumber number = 0;
  Event event;
};

using ToServer = std::variant<Hello, Submit, Cancel, Ping>;
using ToClient = std::variant<Welcome, Accepted, Failure, Happened, Pong, Draining>;

} // namespace paceline::net
