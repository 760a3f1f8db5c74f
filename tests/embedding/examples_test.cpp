// The examples of apps/examples, run as a reader would.
#include "tests/support/process.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>
#include <string>

using namespace paceline::testing;
using boost::asio::ip::tcp;

namespace {

std::string output_of(const std::vector<std::string>& command) {
  const auto result = run_process(command);
  CHECK(result.status == 0);
  CHECK(result.errors.empty());
  return result.output;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string answer_of(unsigned short port, const std::string& line) {
  boost::asio::io_context io;
  tcp::socket socket(io);
  socket.connect({boost::asio::ip::address_v4::loopback(), port});
  boost::asio::write(socket, boost::asio::buffer(line));
  std::string answer;
  boost::system::error_code ended;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), ended);
  CHECK(ended == boost::asio::error::eof);
  return answer;
}

} // namespace

TEST_CASE("the smallest example completes a prompt") {
  CHECK(output_of({PACELINE_EXAMPLE_COMPLETE, "def add(a, b):"}).size() > 10);
}

TEST_CASE("of concurrent requests one ends, one is cancelled, one misses its deadline") {
  const std::string output = output_of({PACELINE_EXAMPLE_CONCURRENT});
  CAPTURE(output);
  CHECK((has(output, "whole: length") || has(output, "whole: stop")));
  CHECK(has(output, "cancelled: cancelled"));
  CHECK(has(output, "deadline: deadline"));
}

TEST_CASE("a drafter without a model gets its guesses accepted") {
  const std::string output = output_of({PACELINE_EXAMPLE_DRAFTER});
  CAPTURE(output);
  CHECK(has(output, "accepted "));
  CHECK(!has(output, "accepted 0 "));
}

TEST_CASE("metrics are exported in Prometheus' format") {
  const std::string output = output_of({PACELINE_EXAMPLE_METRICS});
  CAPTURE(output);
  CHECK(has(output, "# TYPE paceline_generated_tokens_total counter\n"
                    "paceline_generated_tokens_total 48\n"));
}

TEST_CASE("the server of coroutines answers clients, and ends on SIGTERM") {
  Process server({PACELINE_EXAMPLE_STREAM_SERVER});
  server.read_output(std::string("port 10000\n").size());
  const auto port = static_cast<unsigned short>(std::stoi(server.output().substr(5)));
  CHECK(answer_of(port, "def fibonacci(n):\n").size() > 10);
  CHECK(answer_of(port, "import\n").size() > 10);
  server.send(SIGTERM);
  CHECK(server.wait().status == 0);
}

TEST_CASE("the client asks a server, two requests at once, and a server that is not there") {
  Process server(
      {PACELINE_PROGRAM, "serve", "--port", "0", "--grpc-port", "0", "--log-level", "off"});
  const std::string begin = "grpc://127.0.0.1:";
  while (!has(server.output(), begin) || server.output().back() != '\n') {
    const std::size_t had = server.output().size();
    server.read_output(had + 1);
    REQUIRE(server.output().size() > had);
  }
  const auto port = server.output().substr(server.output().find(begin) + begin.size());
  const std::string output = output_of({PACELINE_EXAMPLE_REMOTE, port});
  CAPTURE(output);
  CHECK(has(output, "def fibonacci(n):"));
  CHECK(has(output, "class Stack:"));
  server.send(SIGTERM);
  CHECK(server.wait().status == 0);
  const auto alone = run_process({PACELINE_EXAMPLE_REMOTE, port});
  CHECK(has(alone.errors, "check that `paceline serve --grpc-port` runs there"));
}
