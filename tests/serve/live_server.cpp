#include "tests/serve/live_server.hpp"

#include "tests/support/engine_fixture.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json/serialize.hpp>

#include <ctime>
#include <pthread.h>

namespace paceline::testing {

EngineOptions demo_pair() {
  EngineOptions options;
  options.kv_memory_bytes = std::size_t(64) << 20;
  return options;
}

EngineOptions scripted(const std::string& device) {
  EngineOptions options;
  options.target = ScriptedPair{.context = 65'536}.target();
  options.drafters.clear();
  options.devices = {device};
  options.kv_memory_bytes = std::size_t(64) << 20;
  return options;
}

LiveServer::LiveServer(EngineOptions engine, const apps::serve::Settings& settings)
    : server_(io_), engine_(open_engine(std::move(engine))) {
  apps::serve::Settings chosen = settings;
  chosen.port = 0;
  chosen.grpc_port = chosen.grpc_port.value_or(0);
  if (chosen.model_names.empty())
    chosen.model_names = {"demo"};
  if (chosen.log_level == "info")
    chosen.log_level = "off";
  if (const auto bound = server_.bind(chosen); !bound)
    FAIL(bound.error().text());
  port_ = server_.port();
  grpc_port_ = server_.grpc_port();
  server_.open(engine_);
  server_.start();
  thread_ = std::thread([this] { io_.run(); });
}

LiveServer::~LiveServer() {
  if (!thread_.joinable())
    return;
  drain();
  drain(); // does not wait
  join();
}

double LiveServer::thread_seconds() {
  clockid_t clock{};
  timespec used{};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 ||
      clock_gettime(clock, &used) != 0)
    return 0;
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

void LiveServer::reload() {
  boost::asio::post(io_, boost::asio::use_future([this] { server_.reload(); })).get();
}

void LiveServer::drain() {
  boost::asio::post(io_, [this] { server_.drain(); });
}

void LiveServer::join() {
  thread_.join();
}

HttpReply LiveServer::ask(const std::string& method, const std::string& target,
                          const std::string& body, const HttpClient::Headers& headers) const {
  return HttpClient(port_).ask(method, target, body, headers);
}

boost::json::object LiveServer::post(const std::string& target,
                                     const boost::json::object& body) const {
  const HttpReply reply = ask("POST", target, boost::json::serialize(body));
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  return reply.json();
}

double LiveServer::metric(const std::string& name) const {
  const std::string page = "\n" + ask("GET", "/metrics").body;
  const auto at = page.find("\n" + name);
  INFO(name);
  REQUIRE(at != std::string::npos);
  const auto value = page.find("} ", at);
  return std::stod(page.substr(value + 2));
}

void LiveServer::await_idle() {
  const auto busy = [this] {
    const Metrics now = engine_.metrics();
    return now.running + now.waiting > 0 || now.kv_pages_used > 0 ||
           metric("paceline_http_requests_running") > 1 || // the one that asks
           metric("paceline_grpc_requests_running{") > 0;
  };
  while (busy())
    std::this_thread::yield();
}

} // namespace paceline::testing
