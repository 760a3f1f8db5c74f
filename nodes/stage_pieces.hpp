// A pass cut into pieces, which go to a stage on a node and come back.
#pragma once

#include "messages/node.hpp"
#include "models/stage_elsewhere.hpp"

#include <string>
#include <vector>

namespace paceline::nodes {

/// The pieces of a pass. They are cut between rows, so that a piece is bounded however large a pass
/// is. Threads: one.
class StagePieces {
public:
  StagePieces() = default;
  /// planned: has the rows received and the place for those that come back. rows_max: most rows of
  /// a piece. back_wanted: whether only rows come back whose logits are asked for. format: number
  /// format of crossing rows, both ways. copies: made before the first piece.
  StagePieces(const models::PlannedRows& planned, std::vector<gpu::PageCopy> copies, int rows_max,
              bool back_wanted, NumberFormat format);

  bool any() const { return !pieces_.empty(); }
  bool all_sent() const { return sent_ == pieces_.size(); }
  bool all_back() const { return back_ == pieces_.size(); }
  /// Returns the next piece; not all may have been sent.
  messages::StageRows send();
  /// Takes back the oldest piece under way. Throws std::invalid_argument if it does not have the
  /// size that it must have.
  void take(const messages::StageDone& done);

private:
  struct Piece {
    std::vector<messages::StageSequence> sequences;
    int rows = 0;
    int back = 0; ///< Rows that come back.
    std::size_t pages = 0;
  };
  void cut(const models::PlannedRows::Sequence& sequence, int rows_max, bool back_wanted);

  std::vector<gpu::PageCopy> copies_;
  gpu::Tensor received_;
  gpu::Tensor left_;
  NumberFormat format_ = NumberFormat::f32;
  std::vector<Piece> pieces_;
  std::size_t sent_ = 0;
  std::size_t back_ = 0;
  int rows_sent_ = 0;
  int rows_back_ = 0;
};

/// Returns the bytes of a row that crosses; format: f32 or bf16.
std::size_t row_bytes(int cols, NumberFormat format);
/// Returns rows in the form in which they cross, [rows, cols] without gaps. For bf16 each number is
/// rounded to nearest, ties to even, so that a row's bits depend on nothing but the row.
std::string to_bytes(const gpu::Tensor& rows, NumberFormat format);
/// Fills the rows. bytes: as many as the rows have.
void from_bytes(const std::string& bytes, const gpu::Tensor& rows, NumberFormat format);

} // namespace paceline::nodes
