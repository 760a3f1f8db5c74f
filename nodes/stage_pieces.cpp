#include "nodes/stage_pieces.hpp"

#include "base/bf16.hpp"
#include "nodes/limits.hpp"
#include "nodes/peer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace paceline::nodes {

using namespace messages;

static_assert(std::endian::native == std::endian::little, "rows cross as they lie in memory");

StagePieces::StagePieces(const models::PlannedRows& planned, std::vector<gpu::PageCopy> copies,
                         int rows_max, bool back_wanted, NumberFormat format)
    : copies_(std::move(copies)), received_(planned.received), left_(planned.left),
      format_(format) {
  for (const auto& sequence : planned.sequences)
    cut(sequence, rows_max, back_wanted);
}

/// Puts a sequence's rows behind those in the last piece, and into as many further pieces as they
/// need.
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
  rows.values = to_bytes(received_.slice(rows_sent_, piece.rows), format_);
  rows_sent_ += piece.rows;
  return rows;
}

void StagePieces::take(const StageDone& done) {
  check_peer(back_ < sent_, "a stage answers what nobody has sent");
  const gpu::Tensor rows = left_.slice(rows_back_, pieces_[back_].back);
  check_peer(done.values.size() == std::size_t(rows.rows) * row_bytes(rows.cols, format_),
             "a stage sends other rows than were asked for");
  from_bytes(done.values, rows, format_);
  rows_back_ += rows.rows;
  ++back_;
}

std::size_t row_bytes(int cols, NumberFormat format) {
  return std::size_t(cols) * (format == NumberFormat::bf16 ? sizeof(base::bf16) : sizeof(float));
}

std::string to_bytes(const gpu::Tensor& rows, NumberFormat format) {
  const std::size_t size = row_bytes(rows.cols, format);
  std::string bytes(std::size_t(rows.rows) * size, '\0');
  char* to = bytes.data();
  for (int i = 0; i < rows.rows; ++i, to += size) {
    const float* row = rows.row(i);
    if (format == NumberFormat::f32)
      std::memcpy(to, row, size);
    for (int col = 0; format == NumberFormat::bf16 && col < rows.cols; ++col) {
      const base::bf16 rounded = base::to_bf16(row[col]);
      std::memcpy(to + std::size_t(col) * sizeof rounded, &rounded, sizeof rounded);
    }
  }
  return bytes;
}

void from_bytes(const std::string& bytes, const gpu::Tensor& rows, NumberFormat format) {
  const std::size_t size = row_bytes(rows.cols, format);
  const char* from = bytes.data();
  for (int i = 0; i < rows.rows; ++i, from += size) {
    float* row = rows.row(i);
    if (format == NumberFormat::f32)
      std::memcpy(row, from, size);
    for (int col = 0; format == NumberFormat::bf16 && col < rows.cols; ++col) {
      base::bf16 rounded;
      std::memcpy(&rounded, from + std::size_t(col) * sizeof rounded, sizeof rounded);
      row[col] = base::to_float(rounded);
    }
  }
}

} // namespace paceline::nodes
