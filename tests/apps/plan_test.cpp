// paceline plan: its files, its errors, and the command.
#include "apps/console/plan/file.hpp"
#include "apps/console/plan/input.hpp"
#include "apps/laboratory/plan/report.hpp"
#include "placement/cost.hpp"
#include "tests/apps/support.hpp"

#include <doctest/doctest.h>
#include <iterator>

#include <boost/json/array.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace paceline;
using namespace paceline::apps::plan;
using namespace paceline::testing;
using doctest::Approx;

namespace {

constexpr const char* devices = "[devices]\ncount = 2\nmemory = \"14G\"\n";
constexpr const char* model = "[[models]]\nname = \"m\"\nlatency_ms = 400\nmemory = \"13.4G\"\n";

Input sound(const std::string& text) {
  auto input = parse_input(text, "plan.toml");
  if (!input)
    FAIL(input.error().text());
  return *input;
}

std::string complaint(const std::string& text) {
  const auto input = parse_input(text, "plan.toml");
  return input ? "" : input.error().text();
}

std::string wrong_placement(const std::string& text) {
  const auto file = parse_placement(text, "placement.toml");
  return file ? "" : file.error().text();
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

TEST_CASE("a plan's file says models, devices and what is asked for") {
  const Input input = sound(R"(seconds = 30
seed = 4
[devices]
names = ["cpu:0", "cpu:1"]
memory = 1000
hop_ms = 4
tensor_overhead = 0.36
imbalance = 0.02
[objective]
scale = 5
[traffic]
rate = 9
power_law = 1
cv = 4
[[models]]
name = "a"
copies = 2
latency_ms = 100
memory = "0.5K"
[[models]]
name = "b"
checkpoint = "models/b"
latency_ms = 200
memory = 100
rate = 1
cv = 1
on_seconds = 5
off_seconds = 10
objective_ms = 300
stages_ms = { "2x1" = [110, 120], "1x2" = [130] }
)");
  REQUIRE(input.problem.models.size() == 3);
  CHECK(input.device_names == std::vector<std::string>{"cpu:0", "cpu:1"});
  CHECK(input.problem.devices.count == 2);
  CHECK(input.problem.devices.hop_seconds == 0.004);
  CHECK(input.problem.models[1].name == "a-1");
  CHECK(input.problem.models[1].memory_bytes == 512);
  CHECK(input.problem.models[1].objective_seconds == Approx(0.5));
  CHECK(input.traffic[0].rate == Approx(6));
  CHECK(input.traffic[1].rate == Approx(3));
  CHECK(input.traffic[1].cv == 4);
  CHECK(input.traffic[2].rate == 1);
  CHECK(input.traffic[2].off_seconds == 10);
  CHECK(input.checkpoints[2] == "models/b");
  CHECK(input.problem.models[2].objective_seconds == Approx(0.3));
  CHECK(input.problem.models[2].measured.at({2, 1}).seconds == std::vector{0.11, 0.12});
  CHECK(input.seed == 4);
  CHECK(input.workload().seconds == 90);
  CHECK(input.runs(3).size() == 3);
}

TEST_CASE("models without an objective may take any time") {
  const Input input = sound(std::string(devices) + model + "rate = 1\n");
  CHECK(std::isinf(input.problem.models[0].objective_seconds));
  CHECK_FALSE(placement_file(input, {}).models[0].objective_seconds);
}

TEST_CASE("what is wrong with a plan's file is named with its line, and how to mend it") {
  const std::string head = devices;
  CHECK(complaint(head + model + "rate = -1\n") ==
        "plan.toml, line 8: [[models]]: rate is out of bounds, or no number: give a number of at "
        "least 0");
  CHECK(complaint("[devices]\nmemory = 1\n" + std::string(model) + "rate = 1\n")
            .find("[devices] has no count: give it, or names") != std::string::npos);
  CHECK(complaint(head + model).find("no model is asked for anything: give rate") !=
        std::string::npos);
  CHECK(complaint(head + model + "speed = 1\n") ==
        "plan.toml, line 8: [[models]] has no field speed: there are batch_ms, checkpoint, copies, "
        "cv, draft, latency_ms, memory, name, objective_ms, objective_scale, off_seconds, "
        "on_seconds, output_tokens, prompt_tokens, rate, stages_ms");
  CHECK(complaint(head).find("there is no model: write [[models]]") != std::string::npos);
  CHECK(complaint(head + "[[models]]\nname = \"m\"\nlatency_ms = 4\nmemory = \"lots\"\n")
            .find("line 7: [[models]]: memory is no size: give bytes") != std::string::npos);
  CHECK(complaint(head + model + "[models.stages_ms]\n\"2x1\" = [1]\n")
            .find("line 9: stages_ms: 2x1 has 1 stages: give 2 times") != std::string::npos);
  CHECK(complaint(head + model + "[models.stages_ms]\n\"two\" = [1]\n").find("two is no shape") !=
        std::string::npos);
  CHECK(complaint(head + model + "rate = 1e9\n").find("requests are too many") !=
        std::string::npos);
  CHECK(complaint("seconds = 1e7\n" + head + model +
                  "rate = 0.01\non_seconds = 1e-6\noff_seconds = 1e-6\n")
            .find("5e+12 periods are too many: make on_seconds") != std::string::npos);
  CHECK(complaint(head + model + model).find("is another model's") != std::string::npos);
  CHECK(complaint(head + model + "off_seconds = 1\nrate = 1\n").find("give on_seconds, too") !=
        std::string::npos);
  CHECK(complaint("models = 1\n" + head).find("is no list of sections") != std::string::npos);
  CHECK(complaint("x = [").find("plan.toml, line 1: this is not TOML") == 0);
  CHECK(complaint(head + "[traffic]\ntrace = \"no-such.csv\"\n" + model)
            .find("trace cannot be read") != std::string::npos);
}

TEST_CASE("a plan's file says what requests cost together, and a placement keeps it") {
  const std::string contended = "[devices]\ncount = 2\nmemory = \"14G\"\ncontention = 1.2\n";
  const Input input =
      sound(contended + model +
            "rate = 1\nbatch_ms = [500, 600]\nstages_ms = { \"2x1\" = [210, 200] }\n");
  CHECK(input.problem.models[0].growth == std::vector{1.25, 1.5});
  CHECK(input.problem.devices.contention == 1.2);
  CHECK(input.problem.models[0].measured.at({2, 1}).growth == std::vector{1.25});
  CHECK(placement::side_by_side(input.problem));
  const PlacementFile file = placement_file(input, {{{{0, 1}, {2, 1}, {0}}}});
  CHECK(file.contention == 1.2);
  CHECK(file.models[0].batch_growth == std::vector{1.25, 1.5});
  CHECK(file.groups[0].models[0].batch_growth == std::vector{1.25});
  const auto again = parse_placement(to_text(file), "placement.toml");
  REQUIRE_MESSAGE(again, again.error().text());
  CHECK(*again == file);
  const Input plain = sound(std::string(devices) + model + "rate = 1\n"); // One at a time.
  CHECK_FALSE(placement::side_by_side(plain.problem));
  CHECK(to_text(placement_file(plain, {{{{0}, {1, 1}, {0}}}})).find("batch") == std::string::npos);
}

TEST_CASE("contention is measured among the models that are there, unless the file says it") {
  std::size_t asked = 0;
  Measure measure;
  measure.costs = [](const Measurable& what) -> Result<Costs> {
    CHECK(what.prompt_tokens == 8);
    return Costs{{{1, 1}, {{0.5}, {1.5}}}};
  };
  measure.contention = [&](const std::vector<Measurable>& all) -> Result<double> {
    asked = all.size();
    CHECK(all.back().output_tokens == 64);
    return 1.3;
  };
  const std::string two = "[[models]]\nname = \"m\"\nmemory = 9\nrate = 1\ncopies = 2\n"
                          "checkpoint = \"demo\"\nprompt_tokens = 8\n";
  const auto input = parse_input(devices + two, "plan.toml", measure);
  REQUIRE_MESSAGE(input, input.error().text());
  CHECK(asked == 2);
  CHECK(input->problem.devices.contention == 1.3);
  CHECK(input->problem.models[1].growth == std::vector{1.5});
  CHECK(input->problem.models[1].latency_seconds == 0.5);
  asked = 0;
  const auto said = parse_input(devices + ("contention = 1.1\n" + two), "plan.toml", measure);
  REQUIRE(said);
  CHECK(asked == 0);
  CHECK(said->problem.devices.contention == 1.1);
  measure.contention = [](const auto&) { return fail(ErrorCode::unavailable, "it is gone", ""); };
  const auto wrong = parse_input(devices + two, "plan.toml", measure);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().text() ==
        "plan.toml, line 1: [devices]: contention cannot be measured: it is gone: give it");
}

TEST_CASE("batches that cannot be are refused with their line") {
  const std::string head = std::string(devices) + model + "rate = 1\n";
  const std::string hint =
      ": give for 2, 4, 8, ... requests at once no less than for half as many, "
      "and at most twice that: more would be slower than one after the other";
  CHECK(complaint(head + "batch_ms = [390]\n") ==
        "plan.toml, line 9: [[models]]: batch_ms has 390 behind 400" + hint);
  CHECK(complaint(head + "batch_ms = [500, 1001]\n") ==
        "plan.toml, line 9: [[models]]: batch_ms has 1001 behind 500" + hint);
  CHECK(complaint(head + "batch_ms = [400, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400]\n")
            .find("batch_ms has 11 values: end with 1024 requests at once") != std::string::npos);
  std::string hundred = "400";
  for (int i = 1; i < 100; ++i)
    hundred += ", 400";
  CHECK(complaint(head + "batch_ms = [" + hundred + "]\n").find("has 100 values") !=
        std::string::npos);
  CHECK(complaint(head + "batch_ms = 5\n").find("batch_ms is no list") != std::string::npos);
  CHECK(complaint("[devices]\ncount = 2\nmemory = 9\ncontention = 0.4\n" + std::string(model))
            .find("line 4: [devices]: contention is out of bounds") != std::string::npos);
  CHECK(wrong_placement("version = 1\ndevices = { names = [\"a\"], memory_bytes = 9 }\n"
                        "[[models]]\nname = \"m\"\nlatency_seconds = 1\nmemory_bytes = 9\n"
                        "batch_growth = [0.9]\n")
            .find("line 7: [[models]]: batch_growth has 0.9 behind 1") != std::string::npos);
}

TEST_CASE("a trace of Azure's is told by its heading, and scaled as the file says") {
  const TemporaryFolder folder;
  std::ofstream csv(folder.file("t.csv"));
  csv << "HashOwner,HashApp,HashFunction,Trigger,1,2\n";
  for (int function = 0; function < 10; ++function)
    csv << "o,a,f" << function << ",timer,300,300\n";
  csv.close();
  const auto traced = [&](const char* fields) {
    return parse_input(std::string(devices) + "[traffic]\ntrace = \"t.csv\"\n" + fields + model,
                       folder.file("plan.toml"));
  };
  const auto all = traced("");
  REQUIRE_MESSAGE(all, all.error().text());
  CHECK(all->seconds == 120);
  CHECK(double(all->trace->arrivals.size()) == Approx(6000).epsilon(0.1));
  const auto part = traced("rate_scale = 0.1\nfrom_seconds = 30\nto_seconds = 90\ncv_scale = 2\n"
                           "window_seconds = 20\n");
  REQUIRE_MESSAGE(part, part.error().text());
  CHECK(part->seconds == 60);
  CHECK(double(part->trace->arrivals.size()) == Approx(300).epsilon(0.5));
  const auto wrong = [&](const char* fields) { return traced(fields).error().text(); };
  CHECK(wrong("to_seconds = 5\nfrom_seconds = 5\n")
            .find("line 6: [traffic]: to_seconds is not behind from_seconds") != std::string::npos);
  CHECK(wrong("rate_scale = 0\n").find("rate_scale is out of bounds") != std::string::npos);
  CHECK(wrong("rate_scale = 1e6\n").find("t.csv: ") != std::string::npos);
  CHECK(wrong("rate = 1\n").find("has no field rate: there are cv_scale") != std::string::npos);
}

TEST_CASE("a trace stands beside the file that names it") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("t.csv")) << "seconds,model\n0,m\n1,m\n9,m\n";
  const std::string text = std::string(devices) + "[traffic]\ntrace = \"t.csv\"\n" + model;
  const auto input = parse_input(text, folder.file("plan.toml"));
  REQUIRE(input);
  CHECK(input->workload().arrivals.size() == 3);
  CHECK(input->runs(2)[1].arrivals.size() == 2); // pieces of as many requests each
  std::ofstream(folder.file("t.csv")) << "0,m\n1,x\n";
  const auto wrong = parse_input(text, folder.file("plan.toml"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().text().find("t.csv: line 2: there is no model x") != std::string::npos);
}

TEST_CASE("plan's work follows the requests of a trace, not its clock") {
  const TemporaryFolder folder;
  const auto planned = [&](const char* times) {
    std::ofstream(folder.file("t.csv")) << times;
    std::ofstream(folder.file("plan.toml")) << devices << "[traffic]\ntrace = \"t.csv\"\n"
                                            << model << "objective_scale = 5\n";
    return paceline_json({"plan", folder.file("plan.toml"), "--window", "0.001"});
  };
  const auto from_0 = planned("0,m\n1,m\n2,m\n");
  const auto recorded = planned("1700000000,m\n1700000001,m\n1700000002,m\n");
  CHECK(from_0.at("runs") == 3); // None of the pieces is empty.
  CHECK(recorded.at("placements") == from_0.at("placements"));
  CHECK(recorded.at("run_seconds") == from_0.at("run_seconds"));
  CHECK(planned("0,m\n1,m\n1700000000,m\n").at("ended") == "complete");
}

TEST_CASE("a placement is read as it was written") {
  Input input = sound(std::string(devices) + model + "copies = 2\nrate = 1\nobjective_ms = 900\n");
  input.checkpoints[1] = "models/\"quoted\" \\ é";
  input.drafts[1] = "self:mxfp4";
  const placement::Placement placement{{{{1, 0}, {2, 1}, {0, 1}}}};
  const PlacementFile file = placement_file(input, placement);
  REQUIRE(file.groups.size() == 1);
  CHECK(file.groups[0].devices == std::vector<std::string>{"device-1", "device-0"});
  CHECK(file.groups[0].models[1].model == "m-1");
  CHECK(file.groups[0].models[1].stage_seconds == std::vector{0.2, 0.2});
  CHECK(file.models[0].objective_seconds == 0.9);
  CHECK(file.models[1].draft == "self:mxfp4");
  CHECK(file.devices == input.device_names);
  CHECK(file.device_memory_bytes == input.problem.devices.memory_bytes);
  const std::string text = to_text(file);
  const auto again = parse_placement(text, "placement.toml");
  REQUIRE_MESSAGE(again, again.error().text());
  CHECK(*again == file);
  CHECK(to_text(*again) == text);
}

TEST_CASE("a placement that cannot be is refused with its line") {
  const std::string devices_of_file =
      "version = 1\ndevices = { names = [\"a\"], memory_bytes = 9 }\n";
  const std::string head =
      devices_of_file + "[[models]]\nname = \"m\"\nlatency_seconds = 1\nmemory_bytes = 9\n";
  const std::string group = "[[groups]]\ndevices = [\"a\"]\n";
  CHECK(wrong_placement(head + group).empty());
  CHECK(wrong_placement("").find("the file has no version: write version = 1") !=
        std::string::npos);
  CHECK(wrong_placement("version = 2").find("line 1: the file: version is out of bounds") !=
        std::string::npos);
  CHECK(wrong_placement(head + group + "tensor = 2\n").find("has 1 devices: name pipeline") !=
        std::string::npos);
  CHECK(wrong_placement(head + group + group).find("has a which is named before") !=
        std::string::npos);
  CHECK(wrong_placement(head + group + "models = [{ name = \"x\", stage_seconds = [1] }]")
            .find("line 9: models of a group: name is no model of the file") != std::string::npos);
  CHECK(wrong_placement(head + group + "models = [{ name = \"m\", stage_seconds = [1, 2] }]")
            .find("has 2 stages: give 1 times") != std::string::npos);
  CHECK(wrong_placement(head + "[[groups]]\ndevices = [\"b\"]\n")
            .find("has b, which [devices] does not name: add it there") != std::string::npos);
  CHECK(wrong_placement("version = 1\n").find("the file has no [devices]") != std::string::npos);
  CHECK(wrong_placement(devices_of_file + "[[models]]\nname = \"m\"\n")
            .find("[[models]] has no latency_seconds") != std::string::npos);
}

TEST_CASE("plan prints the plan beside its baselines, and writes it") {
  const TemporaryFolder folder;
  const std::string input = folder.file("plan.toml");
  std::ofstream(input) << devices << model
                       << "copies = 2\nrate = 1.2\ncv = 3\nobjective_ms = 2000\n";
  const auto object = paceline_json(
      {"plan", input, "-o", folder.file("placement.toml"), "--svg", folder.file("plan.svg")});
  check_keys(object, {"placements.plan.attainment", "placements.selective_replication",
                      "placements.one_model_per_device", "placements.round_robin",
                      "placements.replacement_in_windows", "placements.plan.latency_seconds.p50",
                      "groups", "planning_seconds", "ended"});
  const auto attainment = [&](const char* name) {
    return object.at("placements").at(name).at("attainment").at("mean").to_number<double>();
  };
  CHECK(object.at("ended") == "complete");
  CHECK(attainment("plan") > attainment("selective_replication"));
  CHECK(object.at("groups").as_array().size() == 1); // Both models over both devices.
  const auto file = parse_placement(contents(folder.file("placement.toml")), "placement.toml");
  REQUIRE(file);
  CHECK(file->groups[0].models.size() == 2);
  const std::string svg = contents(folder.file("plan.svg"));
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("<title>m-1: ") != std::string::npos);
  const auto shown = run_paceline({"plan", input});
  CHECK(shown.status == 0);
  CHECK(shown.output.find("selective replication") != std::string::npos);
  CHECK(shown.output.find("m-{0,1}") != std::string::npos);
}

TEST_CASE("plan measures what models cost on the devices at hand") {
  const TemporaryFolder folder;
  const std::string head = "[devices]\nnames = [\"sim:10ms\", \"sim:10.0ms\"]\nmemory = 10\n"
                           "[objective]\nscale = 3\n";
  const auto model = [](const char* checkpoint) {
    return std::string("[[models]]\nname = \"m\"\nmemory = 10\nrate = 2\nprompt_tokens = 16\n"
                       "output_tokens = 4\ndraft = \"none\"\ncheckpoint = \"") +
           checkpoint + "\"\n";
  };
  std::ofstream(folder.file("plan.toml")) << head + model("scripted:context=256");
  const auto object = paceline_json(
      {"plan", folder.file("plan.toml"), "--measure", "-o", folder.file("placement.toml")});
  CHECK(object.at("ended") == "complete");
  const auto file = parse_placement(contents(folder.file("placement.toml")), "placement.toml");
  REQUIRE(file);
  CHECK(file->models[0].latency_seconds == Approx(0.04)); // a prompt, and three tokens more
  CHECK(file->models[0].objective_seconds.value() == Approx(0.12));
  // Each prompt takes a pass, so that eight requests take twice as long as one, and 16 four times.
  REQUIRE(file->models[0].batch_growth.size() == 3);
  CHECK(file->models[0].batch_growth.back() == Approx(2).epsilon(0.05));
  for (const auto& group : file->groups)
    CHECK(group.shape.tensor == 1); // what can be served
  std::ofstream(folder.file("plan.toml")) << head + model("/no/such/model");
  check_complaint(run_paceline({"plan", folder.file("plan.toml"), "--measure"}), 2,
                  {"line 13: [[models]]: checkpoint cannot be measured", "/no/such/model"});
  check_complaint(run_paceline({"plan", folder.file("plan.toml")}), 2,
                  {"[[models]] has no latency_ms"});
}

TEST_CASE("plan complains in a line") {
  const TemporaryFolder folder;
  check_complaint(run_paceline({"plan", folder.file("none.toml")}), 2, {"none.toml"});
  check_complaint(run_paceline({"plan"}), 2, {"file"});
  std::ofstream(folder.file("plan.toml")) << devices;
  check_complaint(run_paceline({"plan", folder.file("plan.toml")}), 2,
                  {"plan.toml, line 1", "[[models]]"});
}

TEST_CASE("a search that takes too long, or Ctrl-C, gives the best so far") {
  const TemporaryFolder folder;
  const std::string input = folder.file("plan.toml");
  std::ofstream(input) << "[devices]\ncount = 64\nmemory = \"14G\"\n[traffic]\nrate = 100\n"
                          "[objective]\nscale = 3\n[[models]]\nname = \"m\"\ncopies = 60\n"
                          "latency_ms = 300\nmemory = \"6G\"\n";
  const auto limited = paceline_json({"plan", input, "--time-limit", "0.05"});
  CHECK(limited.at("ended") == "time limit");
  CHECK(limited.at("groups").as_array().size() > 0);
  Process process(paceline_command({"plan", input, "--json"}));
  process.close_input();
  process.await_blocked(SIGINT);
  process.await_busy(0.3);
  process.send(SIGINT);
  const auto result = process.wait();
  CHECK(result.status == 130);
  CHECK(result.output.find(R"("ended":"interrupted")") != std::string::npos);
}

TEST_CASE("the examples of the documents are sound") {
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_EXAMPLES)) {
    if (entry.path().extension() != ".toml")
      continue; // of containers: tools/check_docs
    const auto input = read_input(entry.path().string());
    CAPTURE(entry.path());
    CHECK(input.has_value());
  }
}
