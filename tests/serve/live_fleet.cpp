#include "tests/serve/live_fleet.hpp"

#include "tests/serve/live_server.hpp"
#include "tests/support/engine_fixture.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <future>

namespace paceline::testing {
using namespace apps::serve;

namespace {

/// So that answers tell models apart.
std::uint64_t seed_of(const std::string& checkpoint) {
  return std::uint64_t(checkpoint.back());
}

} // namespace

FleetPlan fleet_plan(int models, int room, const std::vector<std::vector<int>>& on_devices) {
  FleetPlan plan;
  for (int i = 0; i < models; ++i) {
    const std::string name(1, char('a' + i));
    plan.models.push_back({name, "checkpoint-" + name, ""});
    plan.problem.models.push_back({name, 0.1, 1, HUGE_VAL, {}});
  }
  plan.problem.devices.count = int(on_devices.size());
  plan.problem.devices.memory_bytes = std::uint64_t(room);
  for (std::size_t d = 0; d < on_devices.size(); ++d) {
    plan.devices.push_back("d" + std::to_string(d));
    plan.placement.groups.push_back({{int(d)}, {1, 1}, on_devices[d]});
  }
  return plan;
}

LiveFleet::LiveFleet(const FleetPlan& plan, const Settings& settings, std::string device)
    : server_(io_), device_(std::move(device)) {
  Settings chosen = settings;
  chosen.port = 0;
  chosen.log_level = "off";
  setenv("PACELINE_ADMIN_KEY", "admin", 1);
  const auto bound = server_.bind(chosen);
  unsetenv("PACELINE_ADMIN_KEY");
  if (!bound)
    FAIL(bound.error().text());
  port_ = server_.port();
  grpc_port_ = server_.grpc_port();
  std::promise<std::size_t> opened;
  server_.open(
      plan,
      [this](const FleetModel& model, const auto& devices, int shards, std::uint64_t memory_bytes) {
        return open(model, devices, shards, memory_bytes);
      },
      [&](std::size_t engines) { opened.set_value(engines); });
  server_.start();
  thread_ = std::thread([this] { io_.run(); });
  opened.get_future().wait();
}

LiveFleet::~LiveFleet() {
  release();
  if (!thread_.joinable())
    return;
  drain();
  drain(); // does not wait
  join();
}

Result<Engine> LiveFleet::open(const FleetModel& model, const std::vector<std::string>& devices,
                               int shards, std::uint64_t memory_bytes) {
  std::unique_lock lock(mutex_);
  opening_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !held_; });
  opening_ = false;
  if (broken_.contains(model.checkpoint))
    return fail(ErrorCode::not_found, "there is no " + model.checkpoint, "give --model");
  last_opened_ =
      fmt::format("{} on {}, {} bytes of each", model.name, fmt::join(devices, "+"), memory_bytes);
  EngineOptions options = scripted();
  options.target = ScriptedPair{.context = 65'536, .seed = seed_of(model.checkpoint)}.target();
  options.devices.assign(devices.size(), device_);
  options.tensor_parallel_size = shards;
  return Engine::open(std::move(options));
}

HttpReply LiveFleet::ask(const std::string& method, const std::string& target,
                         const std::string& body, const HttpClient::Headers& headers) const {
  return HttpClient(port_).ask(method, target, body, headers);
}

HttpReply LiveFleet::manage(const std::string& target, const std::string& body) const {
  return ask("POST", target, body, {{"Authorization", "Bearer admin"}});
}

std::string LiveFleet::models() const {
  std::string all;
  const auto reply = ask("GET", "/v1/models").json();
  for (const auto& model : reply.at("data").as_array()) {
    all += (all.empty() ? "" : " ") + std::string(model.at("id").as_string()) + ":";
    std::string devices;
    for (const auto& device : model.at("devices").as_array())
      devices += (devices.empty() ? "" : ",") + std::string(device.as_string());
    all += devices;
  }
  return all;
}

void LiveFleet::await_models(const std::string& wanted) const {
  while (models() != wanted)
    std::this_thread::yield();
}

double LiveFleet::metric(const std::string& name) const {
  const std::string page = "\n" + ask("GET", "/metrics").body;
  const auto at = page.find("\n" + name);
  return at == std::string::npos ? 0 : std::stod(page.substr(page.find(' ', at)));
}

std::string LiveFleet::last_opened() const {
  const std::lock_guard lock(mutex_);
  return last_opened_;
}

void LiveFleet::end_engine(const std::string& model) {
  boost::asio::post(io_, boost::asio::use_future([this, &model] {
                      for (const auto& replica : server_.service().fleet().replicas())
                        if (replica->model() == model)
                          CHECK(replica->engine().shutdown(std::chrono::milliseconds(0)));
                    }))
      .get();
}

void LiveFleet::break_checkpoints(std::set<std::string> broken) {
  const std::lock_guard lock(mutex_);
  broken_ = std::move(broken);
}

void LiveFleet::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void LiveFleet::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void LiveFleet::await_opening() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return opening_; });
}

void LiveFleet::change(const FleetPlan& plan) {
  boost::asio::post(
      io_, boost::asio::use_future([this, &plan] { server_.service().fleet().change(plan); }))
      .get();
}

void LiveFleet::drain() {
  boost::asio::post(io_, [this] { server_.drain(); });
}

void LiveFleet::join() {
  thread_.join();
}

} // namespace paceline::testing
