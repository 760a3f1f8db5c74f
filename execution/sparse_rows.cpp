#include "execution/sparse_rows.hpp"

#include <algorithm>

namespace paceline::execution {

speculation::QRow SparseRows::clean() {
  {
    const std::lock_guard lock(mutex_);
    if (!clean_.empty()) {
      speculation::QRow row = std::move(clean_.back());
      clean_.pop_back();
      return row;
    }
  }
  speculation::QRow row = pool_->take();
  if (row)
    std::fill_n(row.get(), pool_->row_length(), 0.0f);
  return row;
}

speculation::QRow SparseRows::take(std::span<const TokenWeight> q) {
  speculation::QRow row = clean();
  if (!row)
    return nullptr;
  double sum = 0;
  for (const TokenWeight& token : q)
    sum += double(token.weight);
  for (const TokenWeight& token : q)
    row.get()[token.token] += float(double(token.weight) / sum);
  std::vector<TokenId> written;
  for (const TokenWeight& token : q)
    written.push_back(token.token);
  float* const lent = row.get();
  return {lent, [home = shared_from_this(), row = std::move(row),
                 written = std::move(written)](float* used) mutable {
            for (const TokenId token : written)
              used[token] = 0;
            const std::lock_guard lock(home->mutex_);
            home->clean_.push_back(std::move(row));
          }};
}

} // namespace paceline::execution
