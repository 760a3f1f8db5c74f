// Several models in one server: who answers, what is refused, and models that come and go while
// requests run.
#include "tests/serve/grpc_client.hpp"
#include "tests/serve/live_fleet.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <fmt/format.h>
#include <functional>
#include <future>
#include <memory>
#include <thread>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::FleetPlan;
using apps::serve::Settings;
using namespace std::chrono_literals;

namespace {

std::string completion_body(const std::string& model, int tokens, bool stream = false) {
  return fmt::format(R"({{"model": "{}", "prompt": [1, 2], "max_tokens": {}, "ignore_eos": true,
                         "stream": {}}})",
                     model, tokens, stream);
}

HttpReply complete(const LiveFleet& fleet, const std::string& model, int tokens = 3) {
  return fleet.ask("POST", "/v1/completions", completion_body(model, tokens));
}

std::string code_of(const HttpReply& reply) {
  return std::string(reply.json().at("error").at("code").as_string());
}

std::string message_of(const HttpReply& reply) {
  return std::string(reply.json().at("error").at("message").as_string());
}

/// A stream that has begun.
std::unique_ptr<HttpClient> begin_stream(const LiveFleet& fleet, const std::string& model,
                                         int tokens) {
  auto client = std::make_unique<HttpClient>(fleet.port());
  client->send("POST", "/v1/completions", completion_body(model, tokens, true));
  REQUIRE(client->read_head().status == 200);
  return client;
}

void check_ends(HttpClient& client) {
  CHECK(client.read_events().back().at("choices").at(0).at("finish_reason") == "length");
}

/// Asks in a thread of its own.
std::future<HttpReply> later(std::function<HttpReply()> ask) {
  return std::async(std::launch::async, std::move(ask));
}

/// Has models "a" and "b" change their places on full devices, and holds that up half-way: which of
/// them has none now.
std::string begin_exchange(LiveFleet& fleet) {
  fleet.hold();
  fleet.change(fleet_plan(2, 1, {{1}, {0}}));
  fleet.await_opening();
  return fleet.models() == "a: b:d1" ? "a" : "b";
}

/// A request that waits for its model by now.
std::future<HttpReply> ask_and_wait(const LiveFleet& fleet, const std::string& model) {
  auto asked = later([&fleet, model] { return complete(fleet, model); });
  while (fleet.metric("paceline_http_requests_running ") < 2) // and this one
    std::this_thread::yield();
  return asked;
}

} // namespace

TEST_CASE("each model answers under its name, and the list says where it is") {
  const LiveFleet fleet(fleet_plan(3, 2, {{0, 1}, {1, 2}}));
  CHECK(fleet.models() == "a:d0 b:d0,d1 c:d1");
  for (const char* model : {"a", "b", "c"}) {
    const HttpReply reply = complete(fleet, model);
    CHECK(reply.status == 200);
    CHECK(reply.json().at("model") == model);
  }
  CHECK(fleet.ask("GET", "/v1/models/b").json().at("devices").as_array().size() == 2);
  CHECK(fleet.ask("GET", "/v1/models/x").status == 404);
  const HttpReply unknown = complete(fleet, "x");
  CHECK(unknown.status == 404);
  CHECK(code_of(unknown) == "model_not_found");
  CHECK(message_of(unknown) == "the model x is not served here: ask for a or b or c");
  const HttpReply missing = fleet.ask("POST", "/v1/completions", R"({"prompt": [1]})");
  CHECK(missing.status == 400);
  CHECK(missing.json().at("error").at("param") == "model");
  CHECK(fleet.ask("POST", "/tokenize", R"({"model": "a", "prompt": "x"})").status == 200);
  CHECK(fleet.ask("POST", "/tokenize", R"({"prompt": "x"})").status == 400);
  CHECK(fleet.ask("POST", "/detokenize", R"({"model": "c", "tokens": [1]})").status == 200);
  CHECK(fleet.ask("POST", "/detokenize", R"({"model": "c", "tokens": [99999]})").status == 400);
}

TEST_CASE("metrics say whose they are, each family once") {
  const LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}));
  for (int i = 0; i < 3; ++i)
    CHECK(complete(fleet, "a").status == 200);
  CHECK(complete(fleet, "b").status == 200);
  const auto count = [&](const char* labels) {
    return fleet.metric(std::string("vllm:e2e_request_latency_seconds_count") + labels);
  };
  CHECK(count(R"({engine="0",model_name="a"})") == 3);
  CHECK(count(R"({engine="1",model_name="b"})") == 1);
  CHECK(fleet.metric(R"(vllm:generation_tokens_total{engine="0",model_name="a"})") == 9);
  CHECK(fleet.metric(R"(paceline_group_requests_running{device="d0"})") == 0);
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="load"})") == 2);
  const std::string page = fleet.ask("GET", "/metrics").body;
  const std::string type = "# TYPE vllm:generation_tokens_total";
  CHECK(page.find(type) != std::string::npos);
  CHECK(page.find(type) == page.rfind(type));
}

TEST_CASE("a burst of one model uses all devices that have it") {
  const LiveFleet fleet(fleet_plan(1, 1, {{0}, {0}}));
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 6; ++i)
    clients.push_back(begin_stream(fleet, "a", 1000));
  CHECK(fleet.metric(R"(paceline_group_requests_running{device="d0"})") > 0);
  CHECK(fleet.metric(R"(paceline_group_requests_running{device="d1"})") > 0);
  for (const auto& client : clients)
    check_ends(*client);
  CHECK(fleet.metric(
            R"(vllm:request_success_total{engine="0",model_name="a",finished_reason="length"})") ==
        3);
  CHECK(fleet.metric(
            R"(vllm:request_success_total{engine="1",model_name="a",finished_reason="length"})") ==
        3);
}

TEST_CASE("what would miss its objective is refused as it comes, or served all the same") {
  FleetPlan plan = fleet_plan(2, 2, {{0, 1}});
  plan.problem.models[0].latency_seconds = 1000;
  plan.problem.models[0].objective_seconds = 1500;
  for (const bool refuse : {true, false}) {
    CAPTURE(refuse);
    Settings settings;
    settings.fleet.refuse_late = refuse;
    const LiveFleet fleet(plan, settings);
    const auto running = begin_stream(fleet, "a", 60'000);
    const HttpReply second = complete(fleet, "a");
    CHECK(second.status == (refuse ? 503 : 200));
    if (refuse) {
      CHECK(code_of(second) == "objective");
      CHECK(message_of(second).find("later than its objective of 1500 s") != std::string::npos);
      CHECK(std::stoi(second.headers.at("retry-after")) > 400);
      CHECK(fleet.metric(R"(paceline_late_requests_total{model_name="a"})") == 1);
    }
    CHECK(complete(fleet, "b").status == 200); // it has all the time in the world
    running->close();
    while (fleet.metric(R"(paceline_group_requests_running{device="d0"})") > 0)
      std::this_thread::yield();
    CHECK(complete(fleet, "a").status == 200); // whoever left holds up nobody
  }
}

TEST_CASE("engines that answer several requests at once get them, as long as none becomes late") {
  FleetPlan plan = fleet_plan(2, 2, {{0, 1}});
  for (auto& model : plan.problem.models)
    model.latency_seconds = 1000;
  plan.problem.models[0].objective_seconds = 1500;
  plan.problem.models[0].growth = {1.2}; // Two at once take 1,200 s.
  const LiveFleet fleet(plan);
  const auto running = begin_stream(fleet, "a", 60'000);
  CHECK(complete(fleet, "a").status == 200);
  const HttpReply other = complete(fleet, "b"); // It would take half of the device.
  CHECK(other.status == 503);
  CHECK(code_of(other) == "objective");
  CHECK(message_of(other).find("for the model b another would miss its objective") !=
        std::string::npos);
  running->close();
}

TEST_CASE("a model that cannot be loaded is told so while others serve, and loaded when it can") {
  FleetPlan plan = fleet_plan(2, 2, {{0}});
  LiveFleet fleet(plan);
  fleet.break_checkpoints({"checkpoint-b"});
  plan.placement.groups[0].models = {0, 1};
  fleet.change(plan);
  while (fleet.metric(R"(paceline_model_moves_total{kind="failed_load"})") == 0)
    std::this_thread::yield();
  const HttpReply refused = complete(fleet, "b");
  CHECK(refused.status == 503);
  CHECK(code_of(refused) == "model_unavailable");
  CHECK(message_of(refused) == "the model b could not be loaded: the server's log says why, try "
                               "again later"); // the reason may name files
  CHECK(complete(fleet, "a").status == 200);
  CHECK(fleet.models() == "a:d0");
  const HttpReply again = fleet.manage("/v1/load", R"({"model": "b"})");
  CHECK(again.status == 503);
  CHECK(message_of(again) == "the model b could not be loaded: there is no checkpoint-b: try "
                             "again later"); // whose hint is of an option
  fleet.break_checkpoints({});
  const HttpReply loaded = fleet.manage("/v1/load", R"({"model": "b"})");
  CHECK(loaded.status == 200);
  CHECK(loaded.json().at("device") == "d0");
  CHECK(complete(fleet, "b").status == 200);
}

TEST_CASE("a model is unloaded when its last request has ended, and may be loaded again") {
  LiveFleet fleet(fleet_plan(2, 2, {{0, 1}}));
  const auto running = begin_stream(fleet, "a", 300);
  const auto endless = begin_stream(fleet, "a", 60'000);
  auto unloaded = later([&] { return fleet.manage("/v1/unload", R"({"model": "a"})"); });
  fleet.await_models("b:d0");
  const HttpReply refused = complete(fleet, "a");
  CHECK(refused.status == 404);
  CHECK(code_of(refused) == "model_not_found");
  check_ends(*running);
  CHECK(unloaded.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  endless->close();
  CHECK(unloaded.get().json().at("status") == "unloaded");
  CHECK(fleet.manage("/v1/unload", R"({"model": "a"})").status == 404);
  CHECK(fleet.manage("/v1/load", R"({"model": "a"})").status == 200);
  CHECK(complete(fleet, "a").status == 200);
  CHECK(fleet.models() == "a:d0 b:d0");
}

TEST_CASE("models nobody planned are loaded, within each device's memory") {
  LiveFleet fleet(fleet_plan(1, 2, {{0}, {}}));
  const HttpReply unsaid = fleet.manage("/v1/load", R"({"model": "new"})");
  CHECK(unsaid.status == 400);
  CHECK(unsaid.json().at("error").at("param") == "memory_bytes");
  const std::string all = R"({"model": "new", "checkpoint": "c", "latency_ms": 100,
                              "memory_bytes": 2, "device": "d0"})";
  const HttpReply full = fleet.manage("/v1/load", all);
  CHECK(full.status == 409);
  CHECK(message_of(full).find("unload another one first") != std::string::npos);
  CHECK(fleet.manage("/v1/load", R"({"model": "new", "device": "d7"})").status == 400);
  const HttpReply loaded = fleet.manage("/v1/load", R"({"model": "new"})");
  CHECK(loaded.status == 200);
  CHECK(loaded.json().at("device") == "d1");
  CHECK(complete(fleet, "new").status == 200);
  CHECK(fleet.manage("/v1/load", R"({"model": "new", "memory_bytes": 1})").status == 409);
  CHECK(fleet.manage("/v1/load", R"({"model": "a", "device": "d1"})").status == 409);
  CHECK(fleet.manage("/v1/unload", R"({"model": "new", "device": "d0"})").status == 404);
  CHECK(fleet.manage("/v1/unload", R"({"model": "new", "device": "d1"})").status == 200);
  CHECK(fleet.manage("/v1/load", R"({"model": "a", "device": "d1"})").status == 200);
  CHECK(fleet.models() == "a:d0,d1");
  CHECK(fleet.manage("/v1/load", R"({"model": "a"})").status == 409); // it is everywhere
  CHECK(fleet.manage("/v1/load", R"({"checkpoint": "c"})").status == 400);
}

TEST_CASE("only an admin's key opens the admin's doors") {
  const LiveFleet fleet(fleet_plan(1, 2, {{0}}));
  for (const char* door : {"/v1/load", "/v1/unload"}) {
    CHECK(fleet.ask("POST", door, R"({"model": "a"})").status == 401);
    CHECK(
        fleet.ask("POST", door, R"({"model": "a"})", {{"Authorization", "Bearer other"}}).status ==
        401);
    CHECK(fleet.ask("GET", door).status == 405);
  }
  CHECK(complete(fleet, "a").status == 200);
}

TEST_CASE("models change places on full devices, and no request is lost") {
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}));
  const auto running = begin_stream(fleet, "a", 100);
  begin_exchange(fleet); // `nearest` is for plans of our own: an operator's is followed
  std::vector<std::future<HttpReply>> asked; // for a model that has no place at the moment
  for (int i = 0; i < 8; ++i)
    for (const char* model : {"a", "b"})
      asked.push_back(later([&fleet, model] { return complete(fleet, model); }));
  fleet.release();
  for (auto& reply : asked)
    CHECK(reply.get().status == 200);
  check_ends(*running);
  fleet.await_models("a:d1 b:d0");
  CHECK(complete(fleet, "a").status == 200);
  CHECK(complete(fleet, "b").status == 200);
}

TEST_CASE("a model of which a plan says something else is opened anew") {
  FleetPlan plan = fleet_plan(2, 2, {{0, 1}});
  LiveFleet fleet(plan);
  const auto running = begin_stream(fleet, "a", 100);
  plan.models[0].checkpoint = "another";
  fleet.change(plan);
  CHECK(complete(fleet, "a").status == 200); // waits for it
  check_ends(*running);
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="load"})") == 3);
  fleet.change(plan); // the same again
  CHECK(complete(fleet, "a").status == 200);
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="load"})") == 3);
  CHECK(fleet.models() == "b:d0 a:d0");
}

TEST_CASE("a group of several devices is an engine in stages, and takes the place of others") {
  FleetPlan apart = fleet_plan(2, 2, {{0}, {1}});
  for (placement::Model& model : apart.problem.models)
    model.memory_bytes = 2; // all of a device, or half of each of two
  FleetPlan together = apart;
  together.placement.groups = {{{0, 1}, {2, 1}, {0, 1}}};
  LiveFleet fleet(together);
  CHECK(fleet.models() == "a:d0+d1 b:d0+d1");
  CHECK(fleet.last_opened() == "b on d0+d1, 1 bytes of each");
  const auto running = begin_stream(fleet, "a", 100);
  CHECK(fleet.metric(R"(paceline_group_requests_running{device="d0+d1"})") == 1);
  fleet.change(apart);
  for (const char* model : {"a", "b"})
    CHECK(complete(fleet, model).status == 200); // waits for room
  check_ends(*running);
  fleet.await_models("a:d0 b:d1");
  CHECK(fleet.manage("/v1/load", R"({"model": "a", "device": "d0+d1"})").status == 400);
  fleet.change(together);
  fleet.await_models("a:d0+d1 b:d0+d1");
  CHECK(fleet.manage("/v1/unload", R"({"model": "a", "device": "d0+d1"})").status == 200);
  CHECK(fleet.manage("/v1/load", R"({"model": "a", "device": "d0"})").status == 400);
  CHECK(fleet.manage("/v1/load", R"({"model": "a"})").json().at("device") == "d0+d1");
  CHECK(complete(fleet, "a").status == 200);
}

TEST_CASE("an engine that has ended is opened anew, and requests wait for that") {
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}));
  const auto running = begin_stream(fleet, "a", 60'000);
  fleet.hold();
  fleet.end_engine("a");
  running->read_events();
  CHECK(complete(fleet, "a").status == 503); // which is how the server learns of it
  fleet.await_opening();
  auto asked = ask_and_wait(fleet, "a");
  CHECK(complete(fleet, "b").status == 200);
  fleet.release();
  CHECK(asked.get().status == 200);
  CHECK(fleet.models() == "a:d0 b:d1");
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="load"})") == 3);
}

TEST_CASE("requests run through many moves, and each ends once") {
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}), {}, "cpu");
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&, model = std::string(i % 2 ? "a" : "b")] {
      while (!over)
        wrong += complete(fleet, model, 20).status != 200;
    });
  for (int i = 0; i < 5; ++i) {
    fleet.change(fleet_plan(2, 1, {{1}, {0}}));
    fleet.await_models("a:d1 b:d0");
    fleet.change(fleet_plan(2, 1, {{0}, {1}}));
    fleet.await_models("a:d0 b:d1");
  }
  over = true;
  for (std::thread& client : clients)
    client.join();
  CHECK(wrong == 0);
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="load"})") >= 22);
}

TEST_CASE("a drain lets requests finish, those that wait for a model, too") {
  Settings settings;
  settings.drain_timeout = 1h;
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}), settings);
  const std::string gone = begin_exchange(fleet);
  auto waiting = ask_and_wait(fleet, gone);
  const auto running = begin_stream(fleet, gone == "a" ? "b" : "a", 100);
  fleet.drain();
  CHECK(fleet.ask("GET", "/ready").status == 503);
  fleet.release();
  check_ends(*running);
  CHECK(waiting.get().status == 200);
  fleet.join();
}

TEST_CASE("a drain lets requests by gRPC finish that wait for a model") {
  Settings settings;
  settings.drain_timeout = 1h;
  settings.grpc_port = 0;
  settings.max_open = 1;
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}), settings);
  const std::string gone = begin_exchange(fleet);
  const GrpcClient client(fleet.grpc_port());
  Request three;
  three.prompt_tokens = {1, 2};
  three.max_tokens = 3;
  auto waiting = std::async(std::launch::async, [&] { return client.generate(three, gone); });
  while (fleet.metric("paceline_grpc_requests_running ") < 1)
    std::this_thread::yield();
  CHECK(code_of(complete(fleet, gone)) == "overloaded"); // whichever protocol has the place
  fleet.drain();
  fleet.release();
  const auto answered = waiting.get();
  CHECK(answered.status.ok());
  CHECK(answered.tokens.size() == 3);
  fleet.join();
}

TEST_CASE("what still waits for a model when the server goes is told so") {
  Settings settings;
  settings.drain_timeout = 20ms;
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}), settings);
  const std::string gone = begin_exchange(fleet);
  auto waiting = ask_and_wait(fleet, gone);
  fleet.drain();
  const HttpReply told = waiting.get();
  CHECK(told.status == 503);
  CHECK(code_of(told) == "shutting_down");
  fleet.release();
  fleet.join();
}

TEST_CASE("a request waits for a model no longer than an answer may take") {
  Settings settings;
  settings.request_timeout = 30ms;
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}), settings);
  const std::string gone = begin_exchange(fleet);
  const HttpReply told = complete(fleet, gone);
  CHECK(told.status == 504);
  CHECK(code_of(told) == "deadline");
}

TEST_CASE("a new plan follows what is asked for") {
  FleetPlan plan = fleet_plan(2, 1, {{0}, {1}, {1}});
  for (placement::Model& model : plan.problem.models)
    model.objective_seconds = 0.15; // one at a time on each device
  Settings settings;
  settings.fleet.replan = 300ms;
  settings.fleet.refuse_late = false;
  const LiveFleet fleet(plan, settings);
  std::atomic<bool> over = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) // all of them want the model that has one device
    clients.emplace_back([&] {
      while (!over)
        CHECK(complete(fleet, "a", 20).status == 200);
    });
  const auto of_a = [&] {
    return fleet.ask("GET", "/v1/models/a").json().at("devices").as_array().size();
  };
  while (of_a() < 2)
    std::this_thread::yield();
  over = true;
  for (std::thread& client : clients)
    client.join();
  CHECK(fleet.metric(R"(paceline_model_moves_total{kind="replan"})") > 0);
  CHECK(complete(fleet, "b").status == 200); // which keeps a place
}
