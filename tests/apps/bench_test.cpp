#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <doctest/doctest.h>

using namespace paceline::testing;

TEST_CASE("bench --json has the documented keys") {
  const auto object = paceline_json(
      {"bench", "--num-prompts", "1", "--repetitions", "1", "-n", "16", "--temperature", "0.8"});
  check_keys(object,
             {"target.parameters", "draft.parameters", "machine.cores", "steps.target_seconds",
              "steps.draft_seconds", "steps.prefill_512_seconds", "ratios.rows8_over_rows1",
              "ratios.rows16_over_rows1", "ratios.sync_over_off", "ratios.overlap_over_off",
              "ratios.overlap_over_sync", "ratios.auto_over_best", "ratios.sync_over_formula",
              "ratios.actor_overhead"});
  for (const std::string rows : {"1", "2", "4", "8", "16"})
    CHECK(object.at("steps").at("target_seconds").at(rows).to_number<double>() > 0);
  for (const std::string mode : {"off", "sync", "overlap", "auto"})
    check_keys(object.at("modes").as_object(),
               {mode + ".tokens_per_second", mode + ".spread", mode + ".acceptance_rate",
                mode + ".tokens_per_round", mode + ".window", mode + ".lookahead_hit_rate",
                mode + ".overlap_ratio", mode + ".time_to_first_token_seconds",
                mode + ".overhead_seconds_per_round"});
}

TEST_CASE("on simulated devices bench takes no time but theirs, and repeats exactly") {
  const std::vector<std::string> arguments{
      "bench", "--device", "sim:14.1ms", "--draft-device", "sim:1.8ms", "--num-prompts",
      "1",     "-n",       "32",         "--repetitions",  "1",         "--temperature",
      "0",     "--window", "3"};
  const auto first = paceline_json(arguments);
  const auto second = paceline_json(arguments);
  CHECK(first.at("workload").at("simulated") == true);
  CHECK(first.at("modes") == second.at("modes"));
  CHECK(first.at("modes").at("off").at("tokens_per_second").to_number<double>() ==
        doctest::Approx(1 / 14.1e-3).epsilon(0.05));
}

TEST_CASE("bench refuses files without prompts") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{}", "[]", "{\"prompts\": []}", "{\"prompts\": [[1]]}"}) {
    CAPTURE(text);
    check_complaint(run_paceline({"bench", "--prompts", folder.file("p.json", text)}), 2,
                    {"p.json"});
  }
  check_complaint(run_paceline({"bench", "--prompts", "/no/such.json"}), 2, {"/no/such.json"});
}
