// A pass in pieces, as they go to a stage on a node and come back.
#include "base/bf16.hpp"
#include "nodes/stage_pieces.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace paceline;
using namespace paceline::nodes;

namespace {

constexpr int width = 3;
constexpr NumberFormat formats[] = {NumberFormat::f32, NumberFormat::bf16};

gpu::Tensor rows_in(std::vector<float>& memory, int count) {
  memory.resize(std::size_t(count) * width);
  return {memory.data(), count, width, width};
}

/// Two sequences of 7 and 2 rows, of which the last two, and the last one, have logits.
struct Pass {
  std::vector<float> received_memory;
  std::vector<float> left_memory;
  models::PlannedRows planned;

  explicit Pass(int left) {
    planned.received = rows_in(received_memory, 9);
    for (std::size_t i = 0; i < received_memory.size(); ++i)
      received_memory[i] = float(i);
    planned.left = rows_in(left_memory, left);
    planned.sequences = {{{4, 5}, 10, 7, 5}, {{9}, 0, 2, 1}};
  }
};

/// What a stage gives that adds one to each number; behind the last layer of rows with logits.
messages::StageDone done(const messages::StageRows& rows, bool wanted_only, NumberFormat format) {
  std::vector<float> values(rows.values.size() / row_bytes(1, format));
  from_bytes(rows.values, {values.data(), int(values.size()) / width, width, width}, format);
  std::vector<float> out;
  int at = 0;
  for (const messages::StageSequence& sequence : rows.sequences)
    for (int row = 0; row < sequence.rows; ++row, ++at)
      for (int i = 0; i < width && (!wanted_only || row >= sequence.logits_from); ++i)
        out.push_back(values[std::size_t(at * width + i)] + 1);
  return {0, to_bytes({out.data(), int(out.size()) / width, width, width}, format), {}};
}

} // namespace

TEST_CASE("a pass in pieces: every row is in one, at its place, and comes back to its own") {
  for (int rows_max = 1; rows_max <= 10; ++rows_max) {
    CAPTURE(rows_max);
    const NumberFormat format = formats[rows_max % 2];
    Pass pass(9);
    StagePieces pieces(pass.planned, {}, rows_max, false, format);
    int first = 10;
    int total = 0;
    while (!pieces.all_sent()) {
      const messages::StageRows rows = pieces.send();
      int count = 0;
      for (const messages::StageSequence& sequence : rows.sequences) {
        count += sequence.rows;
        if (sequence.pages.size() == 2) {
          CHECK(sequence.start == first);
          first += sequence.rows;
        }
      }
      CHECK(count <= rows_max);
      CHECK(rows.values.size() ==
            std::size_t(count) * width * (format == NumberFormat::f32 ? 4 : 2));
      total += count;
      pieces.take(done(rows, false, format));
    }
    CHECK(total == 9);
    CHECK(first == 17);
    CHECK(pieces.all_back());
    for (std::size_t i = 0; i < pass.left_memory.size(); ++i)
      CHECK(pass.left_memory[i] == float(i) + 1);
  }
}

TEST_CASE("a pass in pieces: behind the last layer rows with logits alone come back") {
  for (int rows_max = 1; rows_max <= 10; ++rows_max) {
    CAPTURE(rows_max);
    Pass pass(3);
    StagePieces pieces(pass.planned, {}, rows_max, true, NumberFormat::f32);
    std::vector<messages::StageRows> under_way;
    while (!pieces.all_sent())
      under_way.push_back(pieces.send());
    for (const messages::StageRows& rows : under_way)
      pieces.take(done(rows, true, NumberFormat::f32));
    CHECK(pieces.all_back());
    int i = 0;
    for (const int row : {5, 6, 8})
      for (int col = 0; col < width; ++col, ++i)
        CHECK(pass.left_memory[std::size_t(i)] == float(row * width + col) + 1);
  }
}

TEST_CASE("a pass in pieces: an answer to nothing, or of another size, ends whoever gave it") {
  for (const NumberFormat format : formats) {
    Pass pass(9);
    StagePieces pieces(pass.planned, {}, 4, false, format);
    CHECK_THROWS_AS(pieces.take({}), std::invalid_argument);
    messages::StageDone answer = done(pieces.send(), false, format);
    answer.values.pop_back();
    CHECK_THROWS_AS(pieces.take(answer), std::invalid_argument);
  }
}

TEST_CASE("rows that cross in bf16 are rounded to nearest, and in f32 not at all") {
  std::vector<float> memory;
  const gpu::Tensor rows = rows_in(memory, 2);
  memory = {1.0f, 1.00390625f, 1.01171875f, -3.14159265f, 1e-40f, 65504.0f};
  for (const NumberFormat format : formats) {
    std::vector<float> back;
    from_bytes(to_bytes(rows, format), rows_in(back, 2), format);
    for (std::size_t i = 0; i < memory.size(); ++i)
      CHECK(back[i] == (format == NumberFormat::f32 ? memory[i] : base::round_to_bf16(memory[i])));
  }
}
