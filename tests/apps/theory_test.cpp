// paceline theory: the papers' tables, and what is measured beside them.
#include "apps/laboratory/theory/report.hpp"
#include "sampling/limits.hpp"
#include "tests/apps/support.hpp"

#include <boost/json/array.hpp>
#include <cmath>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>

using namespace paceline;
using namespace paceline::apps::theory;
using namespace paceline::testing;
using doctest::Approx;

namespace {

double number(const boost::json::value& value) {
  return value.to_number<double>();
}

boost::json::object theory_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "theory");
  return paceline_json(std::move(arguments));
}

const boost::json::object& window(const boost::json::object& theory, int length) {
  return theory.at("windows").as_array().at(std::size_t(length - 1)).as_object();
}

double to_two_digits(double x) {
  return std::round(x * 100) / 100;
}

Quantities quantities(double a, double c, double row_cost) {
  Quantities q;
  q.acceptance = a;
  q.draft_cost = c;
  q.verify = [row_cost](int k) { return 1 + k * row_cost; };
  return q;
}

} // namespace

TEST_CASE("theory has the operations and the speed of Leviathan et al. 2022, table 1") {
  struct Line {
    const char* a;
    int window;
    double operations;
    double speed;
  };
  for (const auto& line :
       {Line{"0.6", 2, 1.53, 1.96}, Line{"0.7", 3, 1.58, 2.53}, Line{"0.8", 2, 1.23, 2.44},
        Line{"0.8", 5, 1.63, 3.69}, Line{"0.9", 2, 1.11, 2.71}, Line{"0.9", 10, 1.60, 6.86}}) {
    CAPTURE(line.a);
    const auto theory = theory_json({"-a", line.a, "--draft-cost", "0"});
    const auto& gain = window(theory, line.window);
    CHECK(to_two_digits(number(gain.at("operations"))) == line.operations);
    CHECK(to_two_digits(number(gain.at("sync"))) == line.speed);
    CHECK(to_two_digits(number(gain.at("tokens_per_round"))) == line.speed); // Drafts are free.
  }
}

TEST_CASE("theory's best windows are the policy's") {
  constexpr int most = sampling::limits::window_max;
  for (const double a : {0.3, 0.6, 0.8, 0.95})
    for (const double c : {0.02, 0.1, 0.3})
      for (const double row : {0.0, 0.05}) {
        const auto gains = sweep(quantities(a, c, row), most);
        CHECK(best_of(gains, &WindowGain::sync).window ==
              sampling::theory::best_window_sync(a, c, row, most));
        CHECK(best_of(gains, &WindowGain::chain).window ==
              sampling::theory::best_window_overlap(a, c, row, most));
      }
}

TEST_CASE("speculation breaks even where as much is accepted as a draft step and a row cost") {
  // Leviathan et al. 2022, corollary 3.9: some window pays where a > c, and K = 1 is the first.
  for (const double c : {0.02, 0.2, 0.5})
    for (const double row : {0.0, 0.1})
      CHECK(acceptance_for(quantities(0.7, c, row), 32, 1) == Approx(c + row));
  CHECK(acceptance_for(quantities(0.7, 0.5, 0.6), 32, 1) == Approx(1));
  const auto theory = theory_json({"-a", "0.7", "--draft-cost", "0.1"});
  CHECK(number(theory.at("break_even_acceptance")) == Approx(0.1));
  CHECK(number(window(theory, 1).at("break_even_cost")) == Approx(0.7));
}

TEST_CASE("forks, a wire and stages change what theory expects of overlap") {
  const std::vector<std::string> pair{"-a", "0.8", "--draft-cost", "0.1", "--guessed", "0.61"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), pair.begin(), pair.end());
    return theory_json(std::move(more));
  };
  const auto alone = with({});
  const auto rate = [](const boost::json::object& theory, const char* mode) {
    return number(window(theory, 4).at(mode));
  };
  CHECK(rate(alone, "overlap_chain") == Approx(2.649).epsilon(0.001));
  CHECK(rate(alone, "overlap_forks") == Approx(3.042).epsilon(0.001));
  CHECK(rate(with({"--stages", "2"}), "overlap_forks") == Approx(4.567).epsilon(0.001));
  CHECK(rate(with({"--round-trip", "0.5"}), "sync") == Approx(3.3616 / 1.9).epsilon(0.001));
}

TEST_CASE("a step is bound by memory below as many rows as the data sheet says, or its profile") {
  const auto theory = theory_json({"--hardware", "a100-pcie", "--hardware", "a100", "--device",
                                   "sim:llama-7b", "--memory", "1G"});
  const auto& roofline = theory.at("roofline").as_object();
  const auto& a100 = roofline.at("a100-pcie").as_object();
  CHECK(std::round(number(a100.at("rows").at("16"))) == 161);
  CHECK(number(a100.at("rows").at("6.25")) == Approx(161.24 * 6.25 / 16).epsilon(1e-4));
  // The profile reads at 80 % of the memory rate, and computes at half of the peak.
  const double reached = number(roofline.at("a100").at("rows_reached"));
  CHECK(reached == Approx(312e12 / 2039e9 * 0.5 / 0.8));
  CHECK(number(roofline.at("sim:llama-7b").at("rows_reached")) == Approx(reached).epsilon(0.02));
  const auto given = theory_json({"--peak", "312", "--memory-rate", "1935"});
  CHECK(std::round(number(given.at("roofline").at("given").at("rows").at("16"))) == 161);
}

TEST_CASE("the sequences that fit are what the weights leave over what each takes") {
  // LLaMA-13B in 16 bits: 13.0 billion weights, 2 x 40 layers x 5,120 x 2 bytes of a position.
  const auto theory = theory_json({"--memory", "40G", "--weight-size", "24G", "--token-size",
                                   "800K", "--length", "1024", "--prefill-chunk", "256"});
  const auto& fit = theory.at("fit").as_object();
  CHECK(fit.at("sequences") == 20); // 16 GiB over 800 MiB
  CHECK(number(fit.at("prompt_tokens_per_output_token")) == Approx(256 / 19.0));
  CHECK(theory_json({"--memory", "1G", "--weight-size", "24G", "--token-size", "1K"})
            .at("fit")
            .at("sequences") == 0);
}

TEST_CASE("tokens take in each phase what SARATHI's table 2 says, by the profile fitted to it") {
  const auto theory = theory_json({"--device", "sim:llama-13b-a6000", "--length", "1024",
                                   "--prefill-chunk", "1024", "--max-num-seqs", "4"});
  const auto& batches = theory.at("phases").at("sim:llama-13b-a6000").as_array();
  REQUIRE(batches.size() == 3); // two sequences, three, and four
  const auto& four = batches.at(2).as_object();
  CHECK(four.at("sequences") == 4);
  CHECK(number(four.at("prefill_ms")) == Approx(0.229).epsilon(0.002));
  CHECK(number(four.at("decode_ms")) == Approx(12.49).epsilon(0.001));
  // 1,021 rows with three decodes take 238.4 ms; here the chunk is of 1,024 without them.
  CHECK(number(four.at("riding_ms")) == Approx(1.21 + 0.2196).epsilon(0.002));
  CHECK(number(four.at("decode_over_riding")) ==
        Approx(number(four.at("decode_ms")) / number(four.at("riding_ms"))));
  CHECK(theory_json({}).at("phases").as_object().empty());
}

TEST_CASE("decoding needs few operations for each byte, and prompts or chunks beside it many") {
  // 1,000 weights of two bytes; keys and values of a position are ten numbers.
  const ModelBytes model{2000, 20};
  const auto one = intensity_of(model, {1, 100, 50});
  CHECK(one.decode == Approx((2 * 1000 + 2 * 10 * 100) / (2000.0 + 20 * 100)));
  CHECK(one.prefill == Approx((100 * 2 * 1000 + 2 * 10 * 5050) / (2000.0 + 20 * 100)));
  CHECK(one.hybrid == Approx((50 * 2 * 1000 + 2 * 10 * 50 * 50) / (2000.0 + 20 * 50)));
  const auto four = intensity_of(model, {4, 100, 50});
  CHECK(four.decode == Approx((4 * 2 * 1000 + 2 * 10 * 400) / (2000.0 + 20 * 400)));
  CHECK(four.hybrid ==
        Approx((53 * 2 * 1000 + 2 * 10 * (50 * 50 + 300)) / (2000.0 + 20 * (50 + 300))));
  const auto shown = theory_json({"--weight-size", "2000", "--token-size", "20", "--memory", "1M",
                                  "--length", "100", "--prefill-chunk", "50"})
                         .at("intensity")
                         .as_array();
  CHECK(shown.size() == 16);
  CHECK(number(shown.at(3).as_object().at("decode")) == Approx(four.decode));
}

TEST_CASE("a model's own sizes are those that inspect divides") {
  const auto fit = theory_json({"--memory", "1G"}).at("fit").as_object();
  const auto parts = paceline_json({"inspect", "-m", "demo", "--device", "cpu:0"});
  const auto& part = parts.at("target").at("division").at("devices").as_array().at(0);
  CHECK(number(fit.at("weight_bytes")) == number(part.at("weight_bytes")));
  CHECK(number(fit.at("kv_bytes_per_token")) == number(part.at("kv_bytes_per_token")));
}

TEST_CASE("theory --measure takes its quantities from a run, and sets the formulas beside it") {
  const std::vector<std::string> devices{"--device",       "sim:chinchilla-70b",
                                         "--draft-device", "sim:chinchilla-4b",
                                         "--num-prompts",  "3",
                                         "--window",       "4"};
  std::vector<std::string> arguments = devices;
  arguments.emplace_back("--measure");
  const auto theory = theory_json(arguments);
  CHECK(number(theory.at("draft_cost")) == Approx(1.8 / 14.1));
  CHECK(number(theory.at("row_cost")) == 0);
  const auto& sync = theory.at("measured").at("sync").as_object();
  CHECK(number(theory.at("acceptance")) == number(sync.at("acceptance_rate")));
  CHECK(number(sync.at("speed_over_off")) == Approx(number(sync.at("by_formula"))).epsilon(0.15));
  check_keys(theory, {"measured.overlap.speed_over_off", "measured.overlap.by_formula"});
  CHECK(number(theory.at("guessed")) > 0); // Its lookahead had forks.
  arguments.insert(arguments.begin(), "theory");
  CHECK(run_paceline(arguments).output.find("Measured on sim:chinchilla-70b") != std::string::npos);
}

TEST_CASE("theory measures this machine's steps and rates") {
  const auto theory = theory_json({"--measure", "--num-prompts", "1", "--speculation", "sync"});
  check_keys(theory, {"roofline.here.operations_per_second", "roofline.here.bytes_per_second"});
  CHECK(number(theory.at("draft_cost")) > 0);
  CHECK(theory.at("windows").as_array().size() == 15); // Steps of 1 to 16 rows are measured.
}

TEST_CASE("theory draws the speed over acceptance, draft cost and window") {
  const TemporaryFolder folder;
  const std::string path = folder.file("theory.svg");
  const auto result = run_paceline({"theory", "--svg", path});
  CHECK(result.status == 0);
  for (const char* text : {"window", "sync pays where", "a100-pcie", "161"})
    CHECK(result.output.find(text) != std::string::npos);
  std::ifstream in(path);
  const std::string picture{std::istreambuf_iterator<char>(in), {}};
  CHECK(picture.starts_with("<svg "));
  CHECK(picture.ends_with("</svg>\n"));
  for (const char* text : {"acceptance rate a", "overlap, forks", ">1.5</text>", "c = 0.05"})
    CHECK(picture.find(text) != std::string::npos);
}

TEST_CASE("theory refuses what it cannot know, in one line") {
  const auto refused = [](std::vector<std::string> arguments,
                          const std::vector<std::string>& words) {
    arguments.insert(arguments.begin(), "theory");
    check_complaint(run_paceline(arguments), 2, words);
  };
  refused({"--measure", "-a", "0.5"}, {"--acceptance", "--measure"});
  refused({"-a", "1.5"}, {"--acceptance", "1.5"});
  refused({"--peak", "312"}, {"--peak", "--memory-rate"});
  refused({"--hardware", "b52"}, {"--hardware", "a100-pcie"});
  refused({"--token-size", "1K"}, {"--token-size", "--weight-size"});
  refused({"--device", "sim:nothing"}, {"sim:nothing", "llama-7b"});
  refused({"--measure", "-d", "suffix", "--num-prompts", "1"}, {"--draft-model"});
}
