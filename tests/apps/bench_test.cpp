#include "tests/apps/support.hpp"
#include "tests/models/quantized_gguf.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

using namespace paceline::testing;

TEST_CASE("bench --json has the documented keys") {
  const auto object = paceline_json(
      {"bench", "--num-prompts", "1", "--repetitions", "1", "-n", "16", "--temperature", "0.8"});
  check_keys(object, {"target.parameters",
                      "draft.parameters",
                      "machine.cores",
                      "steps.target_seconds",
                      "steps.draft_seconds",
                      "steps.prefill_512_seconds",
                      "ratios.rows8_over_rows1",
                      "ratios.rows16_over_rows1",
                      "ratios.sync_over_off",
                      "ratios.overlap_over_off",
                      "ratios.overlap_over_sync",
                      "ratios.auto_over_best",
                      "ratios.sync_over_formula",
                      "ratios.actor_overhead",
                      "ratios.step_cost_error",
                      "machine.read_bytes_per_second",
                      "machine.multiply_adds_per_second",
                      "machine.product_multiply_adds_per_second",
                      "ratios.bandwidth_fraction",
                      "ratios.prefill_fraction_of_peak",
                      "ratios.peak_memory_over_weights",
                      "ratios.sampler_over_rows8"});
  for (const std::string vocabulary : {"32768", "151936", "262144"})
    for (const std::string rule : {"rejection", "coupled", "match"})
      check_keys(object.at("sampler_microseconds_per_row").at(vocabulary).at(rule).as_object(),
                 {"none", "top-p", "top-k", "penalties"});
  for (const std::string rows : {"1", "2", "4", "8", "16"})
    CHECK(object.at("steps").at("target_seconds").at(rows).to_number<double>() > 0);
  for (const std::string mode : {"off", "sync", "overlap", "auto"})
    check_keys(object.at("modes").as_object(),
               {mode + ".tokens_per_second", mode + ".spread", mode + ".acceptance_rate",
                mode + ".tokens_per_round", mode + ".window", mode + ".lookahead_hit_rate",
                mode + ".overlap_ratio", mode + ".time_to_first_token_seconds",
                mode + ".overhead_seconds_per_round"});
}

TEST_CASE("bench says what auto chose, prompt by prompt") {
  const auto object = paceline_json({"bench", "--device", "sim:20ms", "--draft-device", "sim:1ms",
                                     "--num-prompts", "2", "-n", "48", "--repetitions", "2"});
  int prompts = 0;
  for (const auto& [mode, count] : object.at("modes").at("auto").at("chosen").as_object()) {
    CHECK((mode == "off" || mode == "sync" || mode == "overlap"));
    prompts += int(count.as_int64());
  }
  CHECK(prompts == 4);
}

TEST_CASE("bench --weights sets plain decoding without quantization beside it") {
  const auto object = paceline_json({"bench", "--weights", "mxfp4", "--draft-weights", "mxfp8",
                                     "--num-prompts", "1", "--repetitions", "1", "-n", "8"});
  check_keys(object, {"bf16_off.tokens_per_second", "ratios.off_over_bf16_off",
                      "ratios.best_over_bf16_off", "ratios.bandwidth_fraction"});
  CHECK(object.at("target").at("weights") == "mxfp4");
  CHECK(object.at("target").at("head_weights") == "bf16");
  CHECK(object.at("draft").at("weights") == "mxfp8");
  CHECK(object.at("ratios").at("best_over_bf16_off").to_number<double>() >=
        object.at("ratios").at("off_over_bf16_off").to_number<double>());
}

TEST_CASE("bench measures a GGUF whose matrices have unlike blocks") {
  const TemporaryFolder folder;
  const auto object =
      paceline_json({"bench", "-m", paceline::models::test::quantized_demo(folder, "draft"), "-d",
                     "suffix", "--num-prompts", "1", "--repetitions", "1", "-n", "8"});
  CHECK(object.at("target").at("weights") == "q4_0+q8_0");
  CHECK(object.at("ratios").at("bandwidth_fraction").to_number<double>() > 0);
}

TEST_CASE("bench measures a draft out of the target itself, whose shared memory counts once") {
  const auto object = paceline_json(
      {"bench", "-d", "self:mxfp4", "--num-prompts", "1", "--repetitions", "1", "-n", "16"});
  const auto& draft = object.at("draft").as_object();
  CHECK(draft.at("name") == "self:mxfp4");
  CHECK(draft.at("weights") == "mxfp4");
  CHECK(draft.at("parameters") == object.at("target").at("parameters"));
  CHECK(draft.at("shared_bytes").to_number<double>() <
        draft.at("weight_bytes").to_number<double>());
  CHECK_FALSE(object.at("target").as_object().contains("shared_bytes"));
  CHECK(object.at("steps").at("draft_seconds").to_number<double>() > 0);
  CHECK(object.at("modes").at("sync").at("acceptance_rate").to_number<double>() > 0.7);
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

TEST_CASE("no mode and no repetition of bench finds the answers of another one") {
  const auto bench = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"bench", "-d", "suffix",        "--device", "sim:10ms",
                                       "-n",    "48", "--num-prompts", "2",        "--temperature",
                                       "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return paceline_json(arguments);
  };
  const auto sync = [](const boost::json::object& report) {
    return report.at("modes").at("sync").at("tokens_per_second").to_number<double>();
  };
  const auto alone = bench({"--speculation", "sync", "--repetitions", "1"});
  const auto all = bench({"--repetitions", "3"});
  CHECK(sync(all) == doctest::Approx(sync(alone)).epsilon(0.35));
  CHECK(all.at("workload").at("lookups").at("suffix") ==
        "its own text, and earlier answers of the same mode and repetition");
}

TEST_CASE("bench says in text, too, what look-ups had seen, and where reports differ in it") {
  const TemporaryFolder folder;
  const std::vector<std::string> arguments{
      "bench", "-d", "suffix",        "--device", "sim:10ms",      "--num-prompts", "1",
      "-n",    "4",  "--repetitions", "1",        "--speculation", "sync",          "--json"};
  auto report = boost::json::parse(run_paceline(arguments).output).as_object();
  report.at("workload").as_object().erase("lookups"); // as earlier versions wrote it
  std::vector<std::string> shown(arguments.begin(), arguments.end() - 1);
  shown.insert(shown.end(), {"--compare", folder.write("b.json", boost::json::serialize(report))});
  const auto compared = run_paceline(shown);
  CHECK(compared.status == 0);
  CHECK(
      compared.output.find("suffix had seen its own text, and earlier answers of the same mode") !=
      std::string::npos);
  CHECK(compared.output.find("Look-ups had not seen the same") != std::string::npos);
}

TEST_CASE("bench on simulated devices sets modes beside their formulas and published figures") {
  const auto object = paceline_json({"bench", "--device", "sim:chinchilla-70b", "--draft-device",
                                     "sim:chinchilla-4b", "--num-prompts", "2", "-n", "64",
                                     "--repetitions", "1", "--window", "4", "--temperature", "0"});
  const auto& ratios = object.at("ratios").as_object();
  check_keys(object, {"ratios.sync_over_formula", "ratios.overlap_over_formula",
                      "published.sync_over_off", "published.source"});
  // Greedy: with so short outputs luck alone is a third of a ratio. Their first and last windows
  // are shorter.
  CHECK(ratios.at("sync_over_formula").to_number<double>() == doctest::Approx(1).epsilon(0.15));
  CHECK(ratios.at("overlap_over_formula").to_number<double>() == doctest::Approx(1).epsilon(0.15));
  CHECK(ratios.at("overlap_over_sync").to_number<double>() > 1.1);
}

TEST_CASE("fewer bits and a draft multiply each other's gains on devices by memory rate") {
  // The argument of Qualcomm's microscaling: twice as fast by fewer bits, and twice by a draft.
  const auto object =
      paceline_json({"bench", "--device", "sim:7b@a100", "--draft-device", "sim:350m@a100",
                     "--weights", "mxfp6", "--head-weights", "mxfp6", "--num-prompts", "2", "-n",
                     "64", "--repetitions", "1", "--window", "7", "--temperature", "0"});
  const auto& ratios = object.at("ratios").as_object();
  const double by_bits = ratios.at("off_over_bf16_off").to_number<double>();
  CHECK(by_bits == doctest::Approx(16 / 6.25).epsilon(0.01));
  CHECK(ratios.at("sync_over_formula").to_number<double>() == doctest::Approx(1).epsilon(0.15));
  CHECK(ratios.at("best_over_bf16_off").to_number<double>() > 1.3 * by_bits);
}

TEST_CASE("bench --scale measures larger models of the same distribution") {
  const std::vector<std::string> plain{"bench", "--num-prompts", "1", "--repetitions", "1", "-n",
                                       "64",    "--temperature", "0", "--window",      "3"};
  std::vector<std::string> scaled = plain;
  scaled.insert(scaled.end(), {"--scale", "14m", "--draft-scale", "1.5m"});
  const auto small = paceline_json(plain);
  const auto large = paceline_json(scaled);
  CHECK(large.at("target").at("name") == "demo, scaled to 14m");
  CHECK(large.at("target").at("parameters").to_number<double>() ==
        doctest::Approx(14e6).epsilon(0.05));
  CHECK(large.at("draft").at("parameters").to_number<double>() ==
        doctest::Approx(1.5e6).epsilon(0.2));
  // A larger model of another distribution would accept next to nothing.
  CHECK(large.at("modes").at("sync").at("acceptance_rate").to_number<double>() ==
        doctest::Approx(small.at("modes").at("sync").at("acceptance_rate").to_number<double>())
            .epsilon(0.25));
}

TEST_CASE("bench leaves no scaled model behind") {
  const TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  const auto result = run_paceline({"bench", "--num-prompts", "1", "--repetitions", "1", "-n", "2",
                                    "--scale", "14m", "--speculation", "off"});
  unsetenv("TMPDIR");
  CHECK(result.status == 0);
  CHECK(folder.entries() == 0);
}

TEST_CASE("bench --keep-scaled leaves models that other commands read") {
  const TemporaryFolder folder;
  const std::vector<std::string> arguments{"bench",
                                           "--num-prompts",
                                           "1",
                                           "--repetitions",
                                           "1",
                                           "-n",
                                           "2",
                                           "--scale",
                                           "14m",
                                           "--draft-scale",
                                           "1.5m",
                                           "--speculation",
                                           "off",
                                           "--keep-scaled",
                                           folder.file("scaled")};
  CHECK(run_paceline(arguments).status == 0);
  const auto kept = paceline_json(
      {"inspect", "-m", folder.file("scaled/target"), "-d", folder.file("scaled/draft")});
  CHECK(kept.at("target").at("parameters").to_number<double>() ==
        doctest::Approx(14e6).epsilon(0.05));
  CHECK(kept.at("pair").at("compatible") == true);
  // What is there is not written over.
  check_complaint(run_paceline(arguments), 2, {"scaled", "--keep-scaled"});
  check_complaint(run_paceline({"bench", "--keep-scaled", "x"}), 2, {"--keep-scaled", "--scale"});
}

TEST_CASE("bench --compare sets an earlier report beside this one") {
  const std::vector<std::string> simulated{
      "bench", "--device", "sim:14.1ms", "--draft-device", "sim:1.8ms", "--num-prompts",
      "1",     "-n",       "16",         "--repetitions",  "1",         "--temperature",
      "0"};
  const auto before = run_paceline([&] {
    auto arguments = simulated;
    arguments.push_back("--json");
    return arguments;
  }());
  REQUIRE(before.status == 0);
  const TemporaryFolder folder;
  auto again = simulated;
  again.insert(again.end(), {"--compare", folder.write("before.json", before.output)});
  const auto object = paceline_json(again);
  CHECK(object.at("now_over_before").at("modes.off.tokens_per_second").to_number<double>() == 1);
  const auto shown = run_paceline(again);
  CHECK(shown.output.find("now / before") != std::string::npos);

  for (const char* text : {"", "{}", "[]"})
    check_complaint(run_paceline({"bench", "--compare", folder.write("bad.json", text)}), 2,
                    {"bad.json"});
}

TEST_CASE("bench refuses sizes that are none, or too small") {
  for (const char* size : {"", "350", "m", "-1b", "0m", "1g", "350mb", "moe", "moe-", "moe-m"}) {
    CAPTURE(size);
    check_complaint(run_paceline({"bench", "--scale", size}), 2, {"--scale"});
  }
  check_complaint(run_paceline({"bench", "--scale", "1m"}), 2, {"cannot scale"});
  check_complaint(run_paceline({"bench", "--scale", "moe-14m"}), 2, {"its experts counted"});
}

TEST_CASE("bench refuses files without prompts") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{}", "[]", "{\"prompts\": []}", "{\"prompts\": [[1]]}"}) {
    CAPTURE(text);
    check_complaint(run_paceline({"bench", "--prompts", folder.write("p.json", text)}), 2,
                    {"p.json"});
  }
  check_complaint(run_paceline({"bench", "--prompts", "/no/such.json"}), 2, {"/no/such.json"});
}
