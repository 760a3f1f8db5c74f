// Load on what it is for: an engine on virtual time, an engine on real time, and servers, also such
// as misbehave.
#include "apps/laboratory/load/engine_target.hpp"
#include "apps/laboratory/load/http_target.hpp"
#include "apps/laboratory/load/measures.hpp"
#include "apps/laboratory/load/plan.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/engine_fixture.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

using namespace paceline;
using namespace paceline::apps::load;
using namespace paceline::testing;
namespace asio = boost::asio;

namespace {

const std::atomic<bool> go_on{false};

Item item(double arrival, int prompt, int output) {
  return {arrival, std::vector<TokenId>(std::size_t(prompt), 3), output};
}

/// Every step takes 10 ms, whatever it does.
EngineOptions ten_milliseconds(int sequences) {
  EngineOptions options = simulated();
  options.drafters.clear();
  options.draft_devices.clear();
  options.devices = {"sim:10ms"};
  options.max_num_seqs = sequences;
  return options;
}

Request greedy() {
  Request request;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

Run load_engine(Engine& engine, EngineTarget::Time time, const std::vector<Item>& items) {
  EngineTarget target(engine, greedy(), time);
  return put_load(target, items, {}, go_on);
}

std::string base_url(std::uint16_t port) {
  return "http://127.0.0.1:" + std::to_string(port);
}

/// A server that gives every connection the same bytes when a request's head has come, and closes.
class RudeServer {
public:
  explicit RudeServer(std::string answer)
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), answer_(std::move(answer)),
        thread_([this] { serve(); }) {}
  ~RudeServer() {
    ending_ = true;
    boost::system::error_code ignored;
    asio::io_context io;
    asio::ip::tcp::socket last(io);
    last.connect(acceptor_.local_endpoint(), ignored); // ends the accept ...
    last.close(ignored);                               // ... and the reading
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

private:
  void serve() {
    while (!ending_) {
      boost::system::error_code ignored;
      asio::ip::tcp::socket socket(io_);
      acceptor_.accept(socket, ignored);
      asio::streambuf head;
      asio::read_until(socket, head, "\r\n\r\n", ignored);
      asio::write(socket, asio::buffer(answer_), ignored);
      socket.shutdown(asio::socket_base::shutdown_send, ignored);
      while (!ignored)
        asio::read(socket, head, asio::transfer_at_least(1), ignored);
    }
  }
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::string answer_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

/// What became of one request to such a server.
Figures ask_rude(const std::string& answer) {
  RudeServer server(answer);
  HttpTarget target({*parse_base_url(base_url(server.port())), "", ""}, Api::completions, {});
  REQUIRE(target.open("some"));
  return measure(put_load(target, {item(0, 4, 4)}, {}, go_on));
}

std::string only_reason(const Figures& figures) {
  CHECK(figures.completed == 0);
  CHECK(figures.failed == 1);
  REQUIRE(figures.failures.size() == 1);
  return figures.failures.begin()->first;
}

} // namespace

TEST_CASE("on virtual time a load takes exactly the schedule that its steps make") {
  Engine engine = open_engine(ten_milliseconds(1));
  const std::vector<Item> items{item(0, 5, 4), item(0.0152, 5, 1), item(0.021, 20, 7),
                                item(0.5, 5, 3), item(3600, 9, 2)};
  const Run run = load_engine(engine, EngineTarget::Time::virtual_clock, items);
  double free = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    CAPTURE(i);
    const Record& record = run.records[i];
    const double first = std::max(free, items[i].arrival) + 0.010;
    free = first + 0.010 * (items[i].max_tokens - 1);
    CHECK(record.state == Record::State::completed);
    CHECK(record.sent == doctest::Approx(items[i].arrival).epsilon(1e-9));
    CHECK(record.first == doctest::Approx(first).epsilon(1e-9));
    CHECK(record.ended == doctest::Approx(free).epsilon(1e-9));
    CHECK(record.gaps.size() == std::size_t(items[i].max_tokens - 1));
    for (const double gap : record.gaps)
      CHECK(gap == doctest::Approx(0.010).epsilon(1e-6));
    CHECK(record.output_tokens == items[i].max_tokens);
  }
  CHECK(run.seconds == doctest::Approx(3600.020));
  REQUIRE(run.queues);
  CHECK(run.queues->max_running == 1);
  CHECK(run.queues->max_waiting == 2);
}

TEST_CASE("on virtual time a drawn load repeats exactly, run after run") {
  PlanOptions options;
  options.requests = 40;
  options.rate = 20;
  options.mean = {20, 12};
  options.range_ratio = 0.5;
  const auto plan = Plan::load(options);
  REQUIRE(plan);
  const PromptPool pool(std::vector<TokenId>{1, 2, 3, 4, 5, 6, 7});
  const auto measured = [&] {
    Engine engine = open_engine(simulated());
    return load_engine(engine, EngineTarget::Time::virtual_clock, plan->items(&pool));
  };
  const Run first = measured();
  const Run second = measured();
  REQUIRE(measure(first).completed == 40);
  CHECK(first.seconds == second.seconds);
  REQUIRE(first.counters);
  CHECK(first.counters->judged > 0);
  CHECK(first.counters->accepted == second.counters->accepted);
  for (std::size_t i = 0; i < 40; ++i)
    CHECK(first.records[i].gaps == second.records[i].gaps);
}

TEST_CASE("an engine that refuses, or cannot take a request, is a reason") {
  EngineOptions options = ten_milliseconds(1);
  options.max_waiting = 1;
  Engine engine = open_engine(options);
  const Run run = load_engine(engine, EngineTarget::Time::virtual_clock,
                              {item(0, 9999, 4), item(0, 5, 4), item(0, 5, 4), item(0, 5, 4)});
  const Figures figures = measure(run);
  CHECK(figures.completed == 2);
  CHECK(figures.failed == 2);
  CHECK(figures.failures.size() == 2);
}

TEST_CASE("load on an engine in real time completes, and stops when it is told to") {
  Engine engine = open_engine(scripted());
  const Figures figures = measure(load_engine(engine, EngineTarget::Time::real,
                                              {item(0, 5, 4), item(0, 5, 4), item(0.001, 5, 1)}));
  CHECK(figures.completed == 3);
  CHECK(figures.output_tokens == 9);
  CHECK(figures.of(Latency::ttft).quantile(0) > 0);

  std::atomic<bool> stopped{false};
  EngineTarget target(engine, greedy(), EngineTarget::Time::real);
  std::thread interrupt([&] {
    while (engine.metrics().running == 0)
      std::this_thread::yield();
    stopped = true;
    target.wake();
  });
  const Run run = put_load(target, {item(0, 5, 60'000), item(1e6, 5, 1)}, {}, stopped);
  interrupt.join();
  CHECK(run.interrupted);
  CHECK(measure(run).completed == 0);
}

TEST_CASE("load on the project's own server gives what the server counts") {
  LiveServer server;
  for (const Api api : {Api::completions, Api::chat}) {
    HttpTarget target({*parse_base_url(base_url(server.port()) + "/v1"), "", ""}, api,
                      {{"ignore_eos", true}, {"temperature", 0}});
    const auto opened = target.open("");
    REQUIRE(opened);
    CHECK(target.model() == "demo");
    std::vector<Item> items;
    if (api == Api::completions) {
      const auto ids = target.tokenize("def fibonacci(n):\n    return n\n");
      REQUIRE(ids == server.engine().tokenize("def fibonacci(n):\n    return n\n", false));
      PlanOptions options;
      options.requests = 12;
      options.mean = {20, 6};
      items = Plan::load(options)->items(std::optional(PromptPool(ids)).operator->());
    } else {
      for (int i = 0; i < 12; ++i)
        items.push_back({0, std::string("def f(x):"), 6});
    }
    LoadOptions options;
    options.max_concurrency = 5;
    const Run run = put_load(target, items, options, go_on);
    const Figures figures = measure(run);
    CHECK(figures.completed == 12);
    CHECK(figures.failed == 0);
    CHECK(figures.output_tokens == 12 * 6);
    if (api == Api::completions)
      CHECK(figures.input_tokens == 12 * 20);
    CHECK(figures.peak_requests == 5);
    CHECK(figures.of(Latency::ttft).quantile(0) > 0);
    REQUIRE(run.counters);
    CHECK(run.counters->judged > 0);
  }
}

TEST_CASE("a server's refusal is a reason, and so is its silence about the model") {
  LiveServer server;
  HttpTarget target({*parse_base_url(base_url(server.port())), "", ""}, Api::completions, {});
  REQUIRE(target.open("nobody"));
  CHECK(only_reason(measure(put_load(target, {item(0, 4, 4)}, {}, go_on))).find("HTTP 404: ") == 0);
}

TEST_CASE("whatever else a server does instead of answering is a reason") {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const std::string event = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n";
  CHECK(only_reason(ask_rude("HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nwhat")) == "HTTP 500");
  CHECK(only_reason(ask_rude("HTTP/1.1 429 No\r\nContent-Length: 30\r\n\r\n"
                             "{\"error\": {\"message\": \"full\"}}")) == "HTTP 429: full");
  CHECK(only_reason(ask_rude("")).find("no answer came") == 0);
  CHECK(only_reason(ask_rude("what is that?\r\n\r\n")).find("no answer came") == 0);
  CHECK(only_reason(ask_rude(head + "Connection: close\r\n\r\n" + event)) ==
        "the stream ended before its answer did");
  CHECK(only_reason(ask_rude(head + "Content-Length: 1000\r\n\r\n" + event))
            .find("the answer broke off") == 0);
  CHECK(only_reason(ask_rude(head + "Connection: close\r\n\r\n" + event +
                             "data: {\"error\": {\"message\": \"gone\"}}\n\n")) == "gone");
}

TEST_CASE("a server that is not there is an error at once") {
  asio::io_context io;
  const auto free_port =
      asio::ip::tcp::acceptor(io, {asio::ip::address_v4::loopback(), 0}).local_endpoint().port();
  HttpTarget target({*parse_base_url(base_url(free_port)), "", ""}, Api::completions, {});
  const auto opened = target.open("");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::unavailable);
  CHECK(opened.error().message.find("cannot connect to http://127.0.0.1") == 0);
  HttpTarget nowhere({*parse_base_url("http://no.such.host.invalid"), "", ""}, Api::completions,
                     {});
  CHECK_FALSE(nowhere.open("x"));
}
