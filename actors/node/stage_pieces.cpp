#include "actors/node/stage_pieces.hpp"

#include "actors/limits.hpp"
#include "actors/node/peer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace paceline::actors {

using namespace messages;

static_assert(std::endian::native == std::endian::little, "rows cross as they lie in memory");

StagePieces::StagePieces(const models::PlannedRows& planned, std::vector<gpu::PageCopy> copies,
                         int rows_max, bool back_wanted)
    : copies_(std::move(copies)), received_(planned.received), left_(planned.left) {
  for (const auto& sequence : planned.sequences)
    cut(sequence, rows_max, back_wanted);
}

/// Its rows behind those that are there, in as many pieces as it takes.
void StagePieces::cut(const models::PlannedRows::Sequence& sequence, int rows_max,
                      bool back_wanted) {
  for (int done = 0; done < sequence.rows;) {
    const bool full = pieces_.empty() || pieces_.back().rows == rows_max ||
                      pieces_.back().pages + sequence.pages.size() > limits::frame_numbers_max;
    Piece& piece = full ? pieces_.emplace_back() : pieces_.back();
    const int rows = std::min(sequence.rows - done, rows_max - piece.rows);
    const int logits_from = std::clamp(sequence.logits_from - done, 0, rows);
    piece.sequences.push_back({sequence.pages, sequence.start + done, rows, logits_from});
    piece.rows += rows;
    piece.back += back_wanted ? rows - logits_from : rows;
    piece.pages += sequence.pages.size();
    done += rows;
  }
}

StageRows StagePieces::send() {
  Piece& piece = pieces_[sent_++];
  StageRows rows;
  rows.sequences = std::move(piece.sequences);
  rows.copies = std::exchange(copies_, {});
  rows.values = to_bytes(received_.slice(rows_sent_, piece.rows));
  rows_sent_ += piece.rows;
  return rows;
}

void StagePieces::take(const StageDone& done) {
  check_peer(back_ < sent_, "a stage answers what nobody has sent");
  const gpu::Tensor rows = left_.slice(rows_back_, pieces_[back_].back);
  check_peer(done.values.size() == sizeof(float) * std::size_t(rows.rows) * std::size_t(rows.cols),
             "a stage sends other rows than were asked for");
  from_bytes(done.values, rows);
  rows_back_ += rows.rows;
  ++back_;
}

std::string to_bytes(const gpu::Tensor& rows) {
  const std::size_t row = sizeof(float) * std::size_t(rows.cols);
  std::string bytes(std::size_t(rows.rows) * row, '\0');
  for (int i = 0; i < rows.rows; ++i)
    std::memcpy(bytes.data() + std::size_t(i) * row, rows.row(i), row);
  return bytes;
}

void from_bytes(const std::string& bytes, const gpu::Tensor& rows) {
  const std::size_t row = sizeof(float) * std::size_t(rows.cols);
  for (int i = 0; i < rows.rows; ++i)
    std::memcpy(rows.row(i), bytes.data() + std::size_t(i) * row, row);
}

} // namespace paceline::actors
