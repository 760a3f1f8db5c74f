// GET /v1/timeline: what lanes do, as it happens, within bounds.
#include "apps/console/limits.hpp"
#include "base/limits.hpp"
#include "tests/serve/live_fleet.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::apps::serve;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

constexpr const char* answer =
    R"({"prompt": [1, 2, 3], "max_tokens": 40, "ignore_eos": true, "temperature": 0})";

json::object next_event(HttpClient& reader) {
  const auto event = reader.read_event();
  REQUIRE(event);
  return json::parse(*event).as_object();
}

/// A reader whose stream has begun, with its first event read.
void begin(HttpClient& reader, const HttpClient::Headers& headers = {}) {
  reader.send("GET", "/v1/timeline", "", headers);
  const HttpReply head = reader.read_head();
  REQUIRE(head.status == 200);
  REQUIRE(head.headers.at("content-type") == "text/event-stream; charset=utf-8");
  next_event(reader);
}

} // namespace

TEST_CASE("a reader sees the lanes' work of an answer, with times that fit together") {
  LiveServer server(demo_pair());
  HttpClient reader(server.port());
  begin(reader);
  REQUIRE(server.ask("POST", "/v1/completions", answer).status == 200);
  std::set<std::string> steps;
  std::int64_t generated = 0;
  while (generated < 40 || !steps.contains("verify")) {
    const json::object event = next_event(reader);
    const json::object engine = event.at("engines").as_array().at(0).as_object();
    CHECK(engine.at("model") == "demo");
    CHECK(engine.at("lost") == 0);
    generated = engine.at("counts").at("generated_tokens").to_number<std::int64_t>();
    for (const json::value& span : engine.at("spans").as_array()) {
      const json::array& parts = span.as_array();
      REQUIRE(parts.size() == 5);
      steps.insert(std::string(parts[1].as_string()));
      CHECK(parts[2].as_int64() >= 0);
      CHECK(parts[3].as_int64() >= 0);
      CHECK(parts[2].as_int64() + parts[3].as_int64() <= engine.at("now").as_int64());
      CHECK(parts[4].at("rows").to_number<int>() > 0);
    }
  }
  CHECK(steps.contains("forward"));
}

TEST_CASE("a reader that takes nothing loses the oldest spans, and is told how many") {
  Settings settings;
  settings.write_timeout = std::chrono::hours(1); // slow is not dead, however slow this machine is
  LiveServer server(scripted(), settings);
  HttpClient reader(server.port(), 4096);
  begin(reader);
  const std::string many =
      R"({"prompt": [1], "max_tokens": 3000, "ignore_eos": true, "temperature": 0})";
  constexpr std::int64_t tokens = 15'000; // several times what queue and system keep
  for (std::int64_t done = 0; done < tokens; done += 3000)
    REQUIRE(server.ask("POST", "/v1/completions", many).status == 200);
  std::int64_t generated = 0;
  std::uint64_t lost = 0;
  std::size_t seen = 0;
  while (generated < tokens || lost == 0) {
    const json::object event = next_event(reader);
    const json::object engine = event.at("engines").as_array().at(0).as_object();
    const std::size_t count = engine.at("spans").as_array().size();
    CHECK(count <= apps::limits::timeline_spans);
    seen += count;
    lost = engine.at("lost").to_number<std::uint64_t>();
    generated = engine.at("counts").at("generated_tokens").to_number<std::int64_t>();
  }
  CHECK(seen + lost >= std::size_t(tokens)); // a pass for each token, and its verdict
}

TEST_CASE("so many may read at once; one who leaves makes room, and keys are asked for") {
  const TemporaryFolder folder;
  Settings settings;
  settings.api_key_file = folder.write("keys", "secret\n");
  LiveServer server(scripted(), settings);
  const HttpClient::Headers key{{"Authorization", "Bearer secret"}};
  HttpClient stranger(server.port());
  stranger.send("GET", "/v1/timeline");
  CHECK(stranger.read_head().status == 401);
  std::vector<std::unique_ptr<HttpClient>> readers;
  for (int i = 0; i < apps::limits::timeline_readers; ++i) {
    readers.push_back(std::make_unique<HttpClient>(server.port()));
    begin(*readers.back(), key);
  }
  const HttpReply full = server.ask("GET", "/v1/timeline", "", key);
  CHECK(full.status == 503);
  CHECK(full.headers.count("retry-after") == 1);
  readers.pop_back();
  HttpReply head;
  while (head.status != 200) { // until the server has noticed
    HttpClient again(server.port());
    again.send("GET", "/v1/timeline", "", key);
    head = again.read_head();
  }
  HttpClient client(server.port());
  client.send("HEAD", "/v1/timeline", "", key);
  CHECK(client.read_head().status >= 200);
}

TEST_CASE("a reader sees the engines of all models, and keeps none from going") {
  LiveFleet fleet(fleet_plan(2, 1, {{0}, {1}}));
  HttpClient reader(fleet.port());
  reader.send("GET", "/v1/timeline");
  REQUIRE(reader.read_head().status == 200);
  const auto models = [&reader] {
    std::string names;
    const json::object event = next_event(reader);
    for (const json::value& engine : event.at("engines").as_array())
      names += std::string(engine.at("model").as_string()) + " ";
    return names;
  };
  CHECK(models() == "a b ");
  CHECK(fleet.manage("/v1/unload", R"({"model": "a"})").status == 200);
  while (models() != "b ") {
  }
  CHECK(fleet.manage("/v1/load", R"({"model": "a"})").status == 200);
  while (models() != "a b ") {
  }
}

TEST_CASE("a drain ends the timeline, which holds nothing up") {
  LiveServer server(scripted());
  HttpClient reader(server.port());
  begin(reader);
  server.drain();
  server.join();
  while (reader.read_event()) {
  }
  CHECK(reader.ended());
}

TEST_CASE("who watches an engine and does not look loses the oldest spans, and is told how many") {
  Engine engine = Engine::open(scripted()).value();
  Request request;
  request.prompt_tokens = {1};
  request.max_tokens = 50;
  request.ignore_eos = true;
  LaneWatch watch = engine.watch_lanes();
  REQUIRE(engine.complete(request));
  const std::size_t of_one = watch.take().size();
  CHECK(of_one >= 50);
  CHECK(watch.lost() == 0);
  for (std::size_t work = 0; work < 2 * base::limits::watched_spans_max; work += of_one)
    REQUIRE(engine.complete(request));
  const auto late = watch.take();
  CHECK(late.size() == base::limits::watched_spans_max);
  CHECK(watch.lost() > 0);
  CHECK(late.front().begin < late.back().begin);
  CHECK(watch.take().empty());
  CHECK(engine.shutdown());
  CHECK(watch.lost() > 0); // it outlives what it watched
}
