// Whatever bytes come over HTTP, in whatever pieces: the connection answers in HTTP and ends with
// its client, nothing is thrown out of it, and it keeps nothing.
#include "apps/server/connection.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <sys/socket.h>
#include <utility>

namespace {

using namespace paceline;
using namespace paceline::apps::serve;
using paceline::testing::require;
using namespace std::chrono_literals;
using tcp = boost::asio::ip::tcp;

Engine open_engine() {
  EngineOptions options;
  options.target = "scripted:context=128";
  options.drafters.clear();
  options.kv_memory_bytes = std::size_t(1) << 20;
  options.log = [](LogLevel, const std::string&) {};
  auto engine = Engine::open(std::move(options));
  require(engine.has_value(), "there is an engine");
  return std::move(*engine);
}

Settings quiet() {
  Settings settings;
  settings.log_level = "off";
  settings.max_body_bytes = std::size_t(256) << 10;
  settings.max_request_memory = std::size_t(512) << 10;
  settings.allowed_origins = {"https://page.example"};
  return settings;
}

/// A server of connections that come from here.
class Host {
public:
  Host() : engine_(open_engine()), service_(io_.get_executor(), quiet(), Keys(), Keys()) {
    service_.fleet().open({"demo"}, engine_);
    service_.open();
  }

  /// What comes back. piece: bytes sent at a time.
  std::string serve(std::string_view input, std::size_t piece) {
    std::array<int, 2> ends{};
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0, "a pair");
    client_ = ends[0];
    answers_.clear();
    done_ = false;
    io_.restart();
    tcp::socket socket(io_);
    socket.assign(tcp::v4(), ends[1]);
    auto connection = std::make_shared<Connection>(std::move(socket), nullptr, service_);
    boost::asio::co_spawn(io_, connection->run(), [&](const std::exception_ptr& thrown) {
      require(!thrown, "nothing is thrown out of a connection");
      done_ = true;
    });
    for (; !input.empty() && !done_; input.remove_prefix(std::min(piece, input.size())))
      send(input.substr(0, piece));
    shutdown(client_, SHUT_WR);
    while (!done_)
      go_on();
    connection.reset();
    receive();
    close(client_);
    require(service_.connections == 0, "a connection that has ended is gone");
    require(service_.memory().used() == 0, "it keeps nothing");
    return std::move(answers_);
  }

private:
  void send(std::string_view bytes) {
    while (!bytes.empty() && !done_) {
      const auto sent = ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN)
        return; // the server has closed
      bytes.remove_prefix(sent > 0 ? std::size_t(sent) : 0);
      io_.poll();
      receive();
    }
  }
  void go_on() {
    io_.run_one_for(100ms);
    receive();
  }
  void receive() {
    std::array<char, 65536> bytes{};
    for (ssize_t count = 0; (count = recv(client_, bytes.data(), bytes.size(), 0)) > 0;)
      answers_.append(bytes.data(), std::size_t(count));
  }

  boost::asio::io_context io_;
  Engine engine_;
  Service service_;
  int client_ = -1;
  bool done_ = false;
  std::string answers_;
};

} // namespace

/// The first byte says how the others are cut into pieces: '0' not at all, '1' each by itself.
void paceline::testing::fuzz(std::string_view input) {
  static Host host;
  if (input.empty())
    return;
  const auto piece = static_cast<unsigned char>(input.front()) % 16;
  input.remove_prefix(1);
  const std::string answers = host.serve(input, piece == 0 ? input.size() : piece);
  require(answers.empty() || answers.starts_with("HTTP/1.1 "), "answers are HTTP");
  require(answers.find("HTTP/1.1 500 Internal Server Error\r\n") == std::string::npos,
          "nothing goes wrong inside");
}
