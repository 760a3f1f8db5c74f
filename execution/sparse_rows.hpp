// Rows of q of which a few tokens have mass.
#pragma once

#include "execution/row_pool.hpp"
#include "paceline/drafter.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace paceline::execution {

/// Rows of zeros that are lent with a few numbers in them, which are taken out again when they come
/// back: nobody goes through a vocabulary for a token. A few are kept so. Threads: any.
class SparseRows : public std::enable_shared_from_this<SparseRows> {
public:
  /// pool: of devices whose memory the host writes to.
  explicit SparseRows(std::shared_ptr<RowPool> pool) : pool_(std::move(pool)) {}

  /// q, normalised; null when there is no memory for it. q: as sampling::propose wants it.
  speculation::QRow take(std::span<const TokenWeight> q);
  /// The same with the numbers as they are: a row that was drawn from elsewhere. Null, too, where
  /// fewer than `spare` others would be left.
  speculation::QRow take_normalised(std::span<const TokenWeight> q, std::size_t spare = 0);
  /// A row of unspecified contents, to be written whole; null when there is no memory for it.
  speculation::QRow take();

private:
  speculation::QRow kept(std::size_t spare = 0);

  std::shared_ptr<RowPool> pool_;
  std::mutex mutex_;
  std::vector<speculation::QRow> clean_;
};

} // namespace paceline::execution
