#include "text/tokenizer.hpp"

#include "text/json.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::text {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  Detokenizer detokenizer(*this, keep_special);
  std::string all;
  for (const TokenId id : ids)
    all += detokenizer.feed(id);
  return sanitize_utf8(all);
}

std::string Tokenizer::name(TokenId id) const {
  const std::string text = bytes(id, true);
  if (text.empty())
    return fmt::format("token_id:{}", id);
  if (sanitize_utf8(text) == text)
    return text;
  std::string out = "bytes:";
  for (const char c : text)
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string Detokenizer::feed(TokenId id, bool ends) {
  const bool keep_special = keep_special_ && !ends;
  return opening_.over() ? tokenizer_->bytes(id, keep_special)
                         : tokenizer_->first_bytes(id, keep_special, opening_);
}

Result<void> check_same_vocabulary(const Tokenizer& target, const Tokenizer& draft) {
  const int both = std::min(target.vocabulary(), draft.vocabulary());
  for (TokenId id = 0; id < both; ++id)
    if (target.known(id) && draft.known(id) && target.bytes(id, true) != draft.bytes(id, true))
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("the draft has another vocabulary: id {} is '{}' for the target and "
                      "'{}' for the draft",
                      id, shown(target.piece(id)), shown(draft.piece(id))),
          "use a draft model with the target's tokenizer, or self:mxfp4, the target itself");
  return {};
}

} // namespace paceline::text
