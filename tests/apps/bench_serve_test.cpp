// paceline bench serve, as a user runs it.
#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

using namespace paceline::testing;

namespace {

const std::string scripted = "scripted:vocabulary=32,memory=3,seed=1,context=512";

/// Returns the arguments of a load on simulated devices, in virtual time.
std::vector<std::string> simulated_load(const std::vector<std::string>& more,
                                        const std::string& draft = "") {
  std::vector<std::string> arguments{"bench", "serve", "-m",       scripted,
                                     "-d",    draft,   "--device", "sim:10ms"};
  if (!draft.empty())
    arguments.insert(arguments.end(), {"--draft-device", "sim:1ms"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("bench serve --json has vLLM's names, and those of queues and speculation") {
  const TemporaryFolder folder;
  const auto object = paceline_json(simulated_load(
      {"--num-prompts", "30", "--request-rate", "5", "--burstiness", "0.5", "--input-len", "40",
       "--output-len", "20", "--range-ratio", "0.3", "--goodput", "ttft:10s", "tpot:1000",
       "--save-detailed", "--result-file", folder.file("result.json")},
      scripted + ",acceptance=0.8"));
  check_keys(object, {"date",
                      "model_id",
                      "num_prompts",
                      "request_rate",
                      "burstiness",
                      "max_concurrency",
                      "duration",
                      "completed",
                      "failed",
                      "total_input_tokens",
                      "total_output_tokens",
                      "request_throughput",
                      "request_goodput",
                      "output_throughput",
                      "total_token_throughput",
                      "max_concurrent_requests",
                      "max_output_tokens_per_s",
                      "input_lens",
                      "output_lens",
                      "ttfts",
                      "itls",
                      "errors",
                      "queue.mean_waiting",
                      "queue.max_waiting",
                      "queue.mean_running",
                      "queue.max_running",
                      "preemptions",
                      "speculation.acceptance_rate",
                      "speculation.accepted_by_position",
                      "speculation.row_use",
                      "target.name"});
  for (const std::string latency : {"ttft", "tpot", "itl", "e2el"})
    for (const std::string statistic : {"mean", "median", "std", "p50", "p90", "p99"})
      check_keys(object, {statistic + "_" + latency + "_ms"});
  CHECK(object.at("completed") == 30);
  CHECK(object.at("simulated") == true);
  CHECK(object.at("request_goodput") == object.at("request_throughput"));
  const double use = object.at("speculation").at("row_use").to_number<double>();
  CHECK(use > 0);
  CHECK(use <= 1);
  CHECK(boost::json::parse(contents(folder.file("result.json"))) == object);
}

TEST_CASE("an hour of simulated traffic repeats exactly") {
  const auto arguments = simulated_load(
      {"--num-prompts", "720", "--request-rate", "0.2", "--input-len", "60", "--output-len", "30"});
  auto first = paceline_json(arguments);
  auto second = paceline_json(arguments);
  CHECK(first.at("duration").to_number<double>() > 3500);
  first.erase("date");
  second.erase("date");
  CHECK(first == second);
}

TEST_CASE("bench serve reads traces and prompts") {
  const TemporaryFolder folder;
  const auto traced = paceline_json(simulated_load(
      {"--load-trace", folder.write("t.csv", "seconds,prompt,output\n0,30,5\n2,40,6\n")}));
  CHECK(traced.at("total_input_tokens") == 70);
  CHECK(traced.at("total_output_tokens") == 11);
  CHECK(traced.at("duration").to_number<double>() > 2);
  const auto written = paceline_json(simulated_load(
      {"--output-len", "7", "--prompts",
       folder.write("p.jsonl",
                    "{\"prompt\": \"1 2 3\"}\n{\"prompt\": [5], \"max_tokens\": 2}\n")}));
  CHECK(written.at("total_output_tokens") == 9);
}

TEST_CASE("bench serve finds the capacity of simulated devices, and draws it") {
  const TemporaryFolder folder;
  // A step of 10 ms and 5 ms a row: a stream's gap is above 60 ms with ten others and more.
  const auto object = paceline_json({"bench", "serve", "-m", "scripted", "-d", "", "--device",
                                     "sim:10ms+5ms/row", "--input-len", "1", "--output-len", "20",
                                     "--num-prompts", "60", "--find-capacity", "--objective",
                                     "p99_tbt:60ms", "--svg", folder.file("capacity.svg")});
  check_keys(object, {"capacity", "objectives.p99_tbt_ms", "objectives.p50_ttft_ms", "trials"});
  const double capacity = object.at("capacity").to_number<double>();
  CHECK(capacity > 0);
  bool above = false;
  for (const auto& trial : object.at("trials").as_array()) {
    const double rate =
        trial.at("request_rate").is_number() ? trial.at("request_rate").to_number<double>() : 1e9;
    if (rate == capacity)
      CHECK(trial.at("p99_itl_ms").to_number<double>() <= 60);
    above |= rate > capacity && rate <= 1.06 * capacity && trial.at("kept") == false;
  }
  CHECK(above);
  CHECK(contents(folder.file("capacity.svg")).starts_with("<svg "));
}

TEST_CASE("a run of bench serve finds no answers of the run before, which asked the same") {
  const TemporaryFolder folder;
  std::string prompts;
  for (const char* text : {"def read(path):", "class Queue:", "import os"})
    prompts += "{\"prompt\": \"" + std::string(text) + "\", \"max_tokens\": 48}\n";
  const std::vector<std::string> load{"bench",
                                      "serve",
                                      "-d",
                                      "suffix",
                                      "--device",
                                      "sim:10ms",
                                      "--prompts",
                                      folder.write("p.jsonl", prompts),
                                      "--max-concurrency",
                                      "1"};
  std::vector<std::string> search = load;
  search.insert(search.end(), {"--find-capacity", "--objective", "p50_e2el:1000s"});
  const auto once = paceline_json(load);
  const auto trials = paceline_json(search).at("trials").as_array();
  CHECK(trials.size() > 2);
  const auto mean = [](const boost::json::object& figures) {
    return figures.at("mean_tpot_ms").to_number<double>();
  };
  for (const auto& trial : trials)
    CHECK(mean(trial.as_object()) > 0.6 * mean(once));
  CHECK(once.at("lookups").at("suffix") == "its own text, and earlier answers of the same run");
}

TEST_CASE("requests that failed are in the report, and in the exit status") {
  auto arguments = simulated_load({"--num-prompts", "3", "--input-len", "5000", "--json"});
  const auto result = run_paceline(arguments);
  CHECK(result.status == 1);
  CHECK(result.errors.find("3 of 3 requests failed") != std::string::npos);
  const auto object = boost::json::parse(result.output).as_object();
  CHECK(object.at("failed") == 3);
  CHECK(object.at("failures").as_object().size() == 1);
}

TEST_CASE("a server that is not there is one line and status 1") {
  check_complaint(run_paceline({"bench", "serve", "--base-url", "http://127.0.0.1:1"}), 1,
                  {"http://127.0.0.1:1", "--base-url"});
}

TEST_CASE("Ctrl-C gives what was measured so far") {
  Process process(paceline_command({"bench", "serve", "-m", "scripted", "-d", "", "--input-len",
                                    "3", "--output-len", "2", "--num-prompts", "300000",
                                    "--max-concurrency", "2", "--json"}));
  process.close_input();
  process.await_blocked(SIGINT);
  process.await_busy(2);
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.status == 130);
  if (!result.output.empty()) // else it was still opening
    CHECK(boost::json::parse(result.output).as_object().at("interrupted") == true);
}

TEST_CASE("bench serve says what is wrong with its options") {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases{
      {{"--request-rate", "0"}, {"--request-rate", "inf"}},
      {{"--request-rate", "fast"}, {"--request-rate"}},
      {{"--burstiness", "0"}, {"--burstiness"}},
      {{"--num-prompts", "0"}, {"--num-prompts"}},
      {{"--range-ratio", "2"}, {"--range-ratio"}},
      {{"--goodput", "ttft"}, {"--goodput", "ttft:200"}},
      {{"--objective", "p99:100"}, {"--objective", "p99_tbt:100ms"}},
      {{"--find-capacity"}, {"--objective"}},
      {{"--objective", "p99_tbt:100ms"}, {"--find-capacity"}},
      {{"--base-url", "localhost:8000"}, {"localhost:8000", "http://"}},
      {{"--base-url", "http://localhost:1", "--device", "sim:1ms"}, {"--device", "--base-url"}},
      {{"--api", "telegraph"}, {"completions|chat"}},
      {{"--load-trace", "/no/such.csv"}, {"/no/such.csv"}},
      {{"--load-trace", "x", "--input-len", "4"}, {"--input-len"}},
      {{"--keep-scaled", "x"}, {"--keep-scaled", "--scale"}},
      {{"--svg", "/no/such/place.svg"}, {"--svg"}},
      {{"--what"}, {"--what", "bench serve --help"}},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments{"bench", "serve"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    CAPTURE(one.arguments.front());
    check_complaint(run_paceline(arguments), 2, one.words);
  }
  check_complaint(run_paceline({"bench", "--window", "3", "serve"}), 2, {"--window", "serve"});
}
