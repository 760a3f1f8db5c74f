#include "apps/console/screen_text.hpp"
#include "apps/terminal/race/columns.hpp"
#include "apps/terminal/race/frame.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::apps;

namespace {

Recording recording(const std::string& name, double pause, int steps) {
  Recording out;
  out.name = name;
  for (int i = 1; i <= steps; ++i) {
    Delta delta;
    delta.tokens = {TokenId(i), TokenId(i)};
    delta.text = std::to_string(i) + " ";
    out.add(delta, pause * i);
  }
  out.end = Finished{};
  return out;
}

bool holds(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines)
    if (line.find(text) != std::string::npos)
      return true;
  return false;
}

RaceScene scene(double seconds) {
  const std::vector<Recording> all{recording("plain", 0.2, 10), recording("synchronous", 0.1, 10),
                                   recording("overlapped", 0.08, 10)};
  RaceScene out{{}, 20, "One machine: they ran one after another.", verdict(all)};
  for (const Recording& each : all)
    out.lanes.push_back(lane_at(each, seconds));
  return out;
}

} // namespace

TEST_CASE("a recording shows what was there at a time") {
  const Recording plain = recording("plain", 0.5, 4);
  CHECK(lane_at(plain, 0.4).tokens == 0);
  CHECK(lane_at(plain, 1.0).text == "1 2 ");
  CHECK(lane_at(plain, 1.0).rate == doctest::Approx(4));
  CHECK_FALSE(lane_at(plain, 1.9).finished);
  CHECK(lane_at(plain, 2.0).finished);
  CHECK(lane_at(plain, 99).seconds == 2.0);
  CHECK(lane_at(plain, 99).rate == doctest::Approx(4));
  Recording running = plain;
  running.end.reset();
  CHECK_FALSE(lane_at(running, 99).finished);
}

TEST_CASE("the winner's factors are the others' times over its own") {
  CHECK(verdict({recording("plain", 0.2, 10), recording("synchronous", 0.1, 10),
                 recording("overlapped", 0.08, 10)}) ==
        "overlapped wins: 2.50 times as fast as plain, 1.25 times as fast as synchronous");
  CHECK(verdict({recording("plain", 0.1, 10), recording("overlapped", 0.2, 10)}) ==
        "plain wins: 2.00 times as fast as overlapped");
  CHECK(verdict({}) == "nobody wins: nothing was decoded");
}

TEST_CASE("frames fill any window and leave none") {
  for (int columns = race_columns_min; columns < 140; columns += 7)
    for (int rows = 1; rows < 30; ++rows) {
      CAPTURE(columns);
      CAPTURE(rows);
      const auto lines = race_frame(scene(0.5), columns, rows);
      CHECK(int(lines.size()) <= rows);
      for (const std::string& line : lines)
        CHECK(display_width(line) <= columns);
    }
}

TEST_CASE("a frame shows each lane, how they ran, and who won") {
  const auto lines = race_frame(scene(0.85), 100, 20);
  for (const char* text : {"plain, 8 tokens", "synchronous, 16 tokens", "overlapped, 0.8 s",
                           "One machine", "overlapped wins"})
    CHECK(holds(lines, text));
  CHECK_FALSE(holds(race_frame(scene(0.5), 100, 20), " s  "));
}

TEST_CASE("a frame keeps what models write from commanding the terminal") {
  RaceScene wild = scene(1);
  wild.lanes[0].text = "a\x1b[2Jb\r";
  for (const std::string& line : race_frame(wild, 90, 20))
    CHECK(line.find('\x1b') == std::string::npos);
}

TEST_CASE("in a narrow window a lane is a line") {
  CHECK(race_line(lane_at(recording("plain", 0.5, 4), 9)) ==
        "plain             8 tokens    2.000 s      4.0 tokens/s");
}

namespace {

EngineOptions with_draft() {
  EngineOptions engine;
  engine.drafters = {"demo"};
  return engine;
}

RaceField field_of(const std::vector<std::string>& columns) {
  auto field = parse_columns(columns, with_draft());
  if (!field)
    FAIL(field.error().text());
  return *field;
}

std::string complaint(const std::vector<std::string>& columns, const EngineOptions& engine) {
  const auto field = parse_columns(columns, engine);
  return field ? "" : field.error().text();
}

} // namespace

TEST_CASE("columns join weights, modes and drafts, and share engines where they can") {
  using enum SpeculationMode;
  const RaceField field = field_of({"bf16", "mxfp6", "mxfp6+draft", "sync+mxfp6", "suffix"});
  REQUIRE(field.lanes.size() == 5);
  const auto modes = [&] {
    std::vector<SpeculationMode> all;
    for (const Recording& lane : field.lanes)
      all.push_back(lane.mode);
    return all;
  };
  CHECK(modes() == std::vector{off, off, automatic, sync, automatic});
  CHECK(field.lanes[2].name == "mxfp6+draft");
  // Plain decoding of the same weights is on the engine with the draft.
  CHECK(field.lanes[1].engine == field.lanes[2].engine);
  CHECK(field.lanes[3].engine == field.lanes[2].engine);
  REQUIRE(field.engines.size() == 3);
  const auto engine = [&](std::size_t lane) {
    return field.engines[std::size_t(field.lanes[lane].engine)];
  };
  CHECK(engine(0).drafters.empty());
  CHECK(engine(0).dtype == NumberFormat::bf16);
  CHECK_FALSE(engine(0).weights);
  CHECK(engine(1).weights == WeightFormat::mxfp6);
  CHECK(engine(1).drafters == std::vector<std::string>{"demo"});
  CHECK(engine(4).drafters == std::vector<std::string>{"suffix"});
}

TEST_CASE("without columns a race is the modes on one engine") {
  const RaceField field = all_modes(with_draft());
  CHECK(field.lanes.size() == 3);
  CHECK(field.engines.size() == 1);
}

TEST_CASE("columns that say nothing, too much or the same are refused by name") {
  const auto refused = [](const std::vector<std::string>& columns) {
    return complaint(columns, with_draft());
  };
  CHECK(refused({"bf16", "mxfp7"}).find("column 'mxfp7' has 'mxfp7'") != std::string::npos);
  CHECK(refused({"mxfp6++draft"}).find("has ''") != std::string::npos);
  CHECK(refused({"mxfp6+mxfp4"}).find("'mxfp4' beside another") != std::string::npos);
  CHECK(refused({"sync+overlap"}).find("'overlap' beside another") != std::string::npos);
  CHECK(refused({"off+draft"}).find("is off, and names a draft") != std::string::npos);
  CHECK(refused({"mxfp6", "mxfp6"}).find("is there twice") != std::string::npos);
  EngineOptions none = with_draft();
  none.drafters.clear();
  CHECK(complaint({"mxfp6+draft"}, none).find("needs a draft") != std::string::npos);
  CHECK(complaint({"mxfp6+suffix"}, none).empty());
}
