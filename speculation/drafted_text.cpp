#include "speculation/drafted_text.hpp"

#include <algorithm>

namespace paceline::speculation {

void DraftedText::read(const Frontier& at) {
  if (epoch_ != at.epoch) {
    committed_ = std::min(committed_, std::size_t(at.length())); // Less, if a verdict was lost.
    tokens.resize(committed_);
    const auto logged = at.log->first(at.log_length);
    if (committed_ < logged.size())
      tokens.insert(tokens.end(), logged.begin() + std::ptrdiff_t(committed_), logged.end());
    for (auto i = int(tokens.size()); i < at.length(); ++i)
      tokens.push_back(at.token_at(i));
    committed_ = tokens.size();
    epoch_ = at.epoch;
  }
  for (auto i = int(tokens.size()); i < at.chain->drawn(); ++i)
    tokens.push_back(at.chain->token(i));
}

} // namespace paceline::speculation
