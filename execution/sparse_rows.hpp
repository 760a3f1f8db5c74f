// Rows of q in which only a few tokens have mass.
#pragma once

#include "execution/row_pool.hpp"
#include "paceline/drafter.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace paceline::execution {

/// Lends rows of zeros with a few numbers in them, which are zeroed again when a row comes back, so
/// that nobody goes through a vocabulary for one token. A few clean rows are kept. Threads: any.
class SparseRows : public std::enable_shared_from_this<SparseRows> {
public:
  /// pool: its devices have memory that the host can write to.
  explicit SparseRows(std::shared_ptr<RowPool> pool) : pool_(std::move(pool)) {}

  /// Lends a row with q, normalised; null if there is no memory. q: in the form that
  /// sampling::propose takes.
  speculation::QRow take(std::span<const TokenWeight> q);
  /// Does the same with the numbers as they are, for a row that was drawn from elsewhere. Returns
  /// null, too, if fewer than `spare` other rows would be left.
  speculation::QRow take_normalised(std::span<const TokenWeight> q, std::size_t spare = 0);
  /// Lends a row of unspecified contents, to be written whole; null if there is no memory for it.
  speculation::QRow take();

private:
  speculation::QRow kept(std::size_t spare = 0);

  std::shared_ptr<RowPool> pool_;
  std::mutex mutex_;
  std::vector<speculation::QRow> clean_;
};

} // namespace paceline::execution
