// /metrics: the names that dashboards know, and figures that are true.
#include "tests/serve/live_server.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string_view>

using namespace paceline;
using namespace paceline::testing;

TEST_CASE("metrics have vLLM's names, and count what happened") {
  LiveServer server;
  const std::string body = R"({"prompt": "def f(x):", "max_tokens": 30, "ignore_eos": true,
    "speculation": {"mode": "sync", "window": 4}})";
  for (int i = 0; i < 3; ++i)
    CHECK(server.ask("POST", "/v1/completions", body).status == 200);
  server.await_idle();
  const HttpReply reply = server.ask("GET", "/metrics");
  CHECK(reply.headers.at("content-type").starts_with("text/plain; version=0.0.4"));
  for (const char* family : {"vllm:time_to_first_token_seconds histogram",
                             "vllm:inter_token_latency_seconds histogram",
                             "vllm:e2e_request_latency_seconds histogram",
                             "vllm:request_queue_time_seconds histogram",
                             "vllm:request_prefill_time_seconds histogram",
                             "vllm:request_decode_time_seconds histogram",
                             "vllm:request_inference_time_seconds histogram",
                             "vllm:request_prompt_tokens histogram",
                             "vllm:request_generation_tokens histogram",
                             "vllm:prefix_cache_queries_total counter",
                             "vllm:prefix_cache_hits_total counter",
                             "process_cpu_seconds_total counter",
                             "process_resident_memory_bytes gauge",
                             "process_start_time_seconds gauge",
                             "process_open_fds gauge",
                             "vllm:num_requests_running gauge",
                             "vllm:num_requests_waiting gauge",
                             "vllm:kv_cache_usage_perc gauge",
                             "vllm:num_preemptions_total counter",
                             "vllm:prompt_tokens_total counter",
                             "vllm:generation_tokens_total counter",
                             "vllm:request_success_total counter",
                             "vllm:spec_decode_num_drafts_total counter",
                             "vllm:spec_decode_num_draft_tokens_total counter",
                             "vllm:spec_decode_num_accepted_tokens_total counter",
                             "vllm:spec_decode_num_accepted_tokens_per_pos_total counter",
                             "paceline_lane_busy_seconds_total counter",
                             "paceline_actor_restarts_total counter",
                             "paceline_target_moved gauge",
                             "paceline_discarded_tokens_total counter",
                             "paceline_lookahead_hits_total counter"}) {
    CAPTURE(family);
    CHECK(reply.body.find(std::string("# TYPE ") + family + "\n") != std::string::npos);
  }
  CHECK(server.metric("vllm:request_generation_tokens_sum{") == 90);
  CHECK(server.metric("vllm:request_decode_time_seconds_count{") == 3);
  CHECK(server.metric("vllm:prefix_cache_queries_total{") ==
        server.metric("vllm:request_prompt_tokens_sum{"));
  const Metrics engine = server.engine().metrics();
  const auto prompt = double(server.engine().tokenize("def f(x):").size());
  CHECK(server.metric("vllm:generation_tokens_total{") == 90);
  CHECK(server.metric("vllm:prompt_tokens_total{") == 3 * prompt);
  CHECK(server.metric("vllm:time_to_first_token_seconds_count{") == 3);
  CHECK(server.metric("vllm:e2e_request_latency_seconds_count{") == 3);
  CHECK(server.metric("vllm:request_queue_time_seconds_count{") == 3);
  CHECK(server.metric("vllm:inter_token_latency_seconds_count{") == 87);
  CHECK(
      server.metric(
          R"(vllm:request_success_total{engine="0",model_name="demo",finished_reason="length"})") ==
      3);
  CHECK(server.metric("vllm:spec_decode_num_drafts_total{") == double(engine.windows));
  CHECK(server.metric("vllm:spec_decode_num_accepted_tokens_total{") == double(engine.accepted));
  double by_position = 0;
  for (const std::uint64_t count : engine.accepted_by_position)
    by_position += double(count);
  CHECK(by_position == double(engine.accepted));
  CHECK(server.metric("paceline_full_length_requests{") == engine.full_length_requests);
  CHECK(engine.full_length_requests > 0);
  CHECK(server.metric("vllm:num_requests_running{") == 0);
  CHECK(server.metric("vllm:kv_cache_usage_perc{") == 0);
  CHECK(server.metric(
            R"(paceline_http_responses_total{engine="0",model_name="demo",status="200"})") >= 3);
}

TEST_CASE("no two families have one name once OpenMetrics has taken its endings away") {
  LiveServer server(scripted());
  const std::string page = server.ask("GET", "/metrics").body;
  std::set<std::string> names;
  const std::string_view mark = "# TYPE ";
  for (auto at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1)) {
    std::istringstream line(page.substr(at + mark.size()));
    std::string name;
    std::string type;
    line >> name >> type;
    CAPTURE(name);
    CHECK(name.ends_with("_total") == (type == "counter"));
    if (type == "counter")
      name.resize(name.size() - std::string_view("_total").size());
    CHECK(names.insert(name).second);
  }
  CHECK(names.size() > 30);
}
