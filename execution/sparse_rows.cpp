#include "execution/sparse_rows.hpp"

#include <algorithm>

namespace paceline::execution {

namespace {

constexpr std::size_t kept_max = 16;

} // namespace

speculation::QRow SparseRows::kept(std::size_t spare) {
  const std::lock_guard lock(mutex_);
  if (clean_.size() <= spare)
    return nullptr;
  speculation::QRow row = std::move(clean_.back());
  clean_.pop_back();
  return row;
}

speculation::QRow SparseRows::take() {
  speculation::QRow row = pool_->take();
  return row ? row : kept();
}

speculation::QRow SparseRows::take(std::span<const TokenWeight> q) {
  double sum = 0;
  for (const TokenWeight& token : q)
    sum += double(token.weight);
  std::vector<TokenWeight> shares(q.begin(), q.end());
  for (TokenWeight& token : shares)
    token.weight = float(double(token.weight) / sum);
  return take_normalised(shares);
}

speculation::QRow SparseRows::take_normalised(std::span<const TokenWeight> q, std::size_t spare) {
  speculation::QRow row = kept(spare);
  if (!row) {
    row = pool_->take(spare);
    if (!row)
      return nullptr;
    std::fill_n(row.get(), pool_->row_length(), 0.0f);
  }
  for (const TokenWeight& token : q)
    row.get()[token.token] += token.weight;
  std::vector<TokenId> written;
  for (const TokenWeight& token : q)
    written.push_back(token.token);
  float* const lent = row.get();
  return {lent, [home = shared_from_this(), row = std::move(row),
                 written = std::move(written)](float* used) mutable {
            for (const TokenId token : written)
              used[token] = 0;
            const std::lock_guard lock(home->mutex_);
            if (home->clean_.size() < kept_max)
              home->clean_.push_back(std::move(row));
          }};
}

} // namespace paceline::execution
