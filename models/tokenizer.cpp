#include "models/tokenizer.hpp"

#include "models/files.hpp"
#include "models/scripted.hpp"
#include "models/tokenizer_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utf8proc.h>

namespace paceline::models {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

/// text: valid UTF-8.
std::string to_nfc(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 utf8proc_ssize_t(text.size()), &mapped,
                                 utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0)
    return std::string(text);
  std::string out(reinterpret_cast<const char*>(mapped), std::size_t(size));
  std::free(mapped);
  return out;
}

class ByteLevelTokenizer final : public Tokenizer {
public:
  explicit ByteLevelTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  std::vector<TokenId> encode(std::string_view text, bool /*add_special*/) const override {
    const std::string valid = sanitize_utf8(text);
    Run run;
    run.ids.reserve(valid.size() / 3 + 1);
    for_each_between(parts_.raw, valid, run,
                     [&](std::string_view part) { encode_part(part, run); });
    return std::move(run.ids);
  }

  std::string bytes(TokenId id, bool keep_special) const override {
    return known(id) && (keep_special || !token(id).special) ? token(id).bytes : std::string();
  }
  std::string piece(TokenId id) const override {
    return known(id) ? token(id).piece : std::string();
  }
  int vocabulary() const override { return int(parts_.tokens.size()); }
  bool known(TokenId id) const override { return id >= 0 && id < vocabulary() && token(id).known; }
  std::vector<TokenId> special_ids() const override {
    std::vector<TokenId> out;
    for (TokenId id = 0; id < vocabulary(); ++id)
      if (token(id).special)
        out.push_back(id);
    return out;
  }

private:
  /// The ids so far, and memory that is reused from word to word.
  struct Run {
    std::vector<TokenId> ids;
    std::vector<std::string_view> pieces;
    std::vector<std::string_view> finer;
    Bpe::Scratch scratch;
  };

  const TokenizerParts::Token& token(TokenId id) const { return parts_.tokens[std::size_t(id)]; }

  /// Appends the ids of added tokens and calls `then` for what lies between them, in order.
  template <class Then>
  static void for_each_between(const AddedTokens& added, std::string_view text, Run& run,
                               Then then) {
    std::size_t done = 0;
    while (const auto match = added.find(text, done)) {
      then(text.substr(done, match->begin - done));
      run.ids.push_back(match->id);
      done = match->end;
    }
    then(text.substr(done));
  }

  void encode_part(std::string_view part, Run& run) const {
    std::string composed;
    if (parts_.nfc && !is_ascii(part))
      part = composed = to_nfc(part);
    for_each_between(parts_.normalized, part, run,
                     [&](std::string_view text) { encode_plain(text, run); });
  }

  void encode_plain(std::string_view text, Run& run) const {
    if (text.empty())
      return;
    run.pieces.assign(1, text);
    for (const Splitter& splitter : parts_.splits) {
      run.finer.clear();
      for (const std::string_view piece : run.pieces)
        splitter.split(piece, run.finer);
      std::swap(run.pieces, run.finer);
    }
    for (const std::string_view word : run.pieces)
      parts_.bpe.encode(word, run.scratch, run.ids);
  }

  TokenizerParts parts_;
};

} // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& folder) {
  if (is_scripted(folder))
    return make_scripted_tokenizer(folder);
  auto parts = read_tokenizer(folder);
  if (!parts)
    return tl::unexpected(parts.error());
  return std::make_shared<const ByteLevelTokenizer>(std::move(*parts));
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  std::string all;
  for (const TokenId id : ids)
    all += bytes(id, keep_special);
  return sanitize_utf8(all);
}

Result<void> check_same_vocabulary(const Tokenizer& target, const Tokenizer& draft) {
  const int both = std::min(target.vocabulary(), draft.vocabulary());
  for (TokenId id = 0; id < both; ++id)
    if (target.known(id) && draft.known(id) && target.bytes(id, true) != draft.bytes(id, true))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the draft has another vocabulary: id {} is '{}' for the target and "
                              "'{}' for the draft",
                              id, shown(target.piece(id)), shown(draft.piece(id))),
                  "use a draft model with the target's tokenizer");
  return {};
}

} // namespace paceline::models
