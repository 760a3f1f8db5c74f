#include "text/vocabulary_map.hpp"

#include "text/limits.hpp"

#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>

namespace paceline::text {
namespace {

/// A vocabulary by bytes. Of several tokens with the same bytes it has the one that encoding gives.
class ByBytes {
public:
  explicit ByBytes(const Tokenizer& tokenizer)
      : tokenizer_(&tokenizer), special_(std::size_t(tokenizer.vocabulary())) {
    for (const TokenId id : tokenizer.special_ids())
      special_[std::size_t(id)] = true;
    for (TokenId id = 0; id < tokenizer.vocabulary(); ++id)
      if (const std::string key = this->key(id); key.size() > 1)
        add(key, id);
  }

  /// Returns a key that is the same for tokens of the same meaning in both tokenizers.
  std::string key(TokenId id) const {
    return (special_[std::size_t(id)] ? 's' : 't') + tokenizer_->bytes(id, true);
  }
  /// Returns -1 if there is none.
  TokenId find(const std::string& key) const {
    const auto at = ids_.find(key);
    return at == ids_.end() ? -1 : at->second;
  }

  /// Returns the ids of these bytes, as a text of their own. Bytes that no token has are left out.
  std::vector<TokenId> encode(std::string_view bytes) const {
    std::vector<TokenId> ids = tokenizer_->encode(bytes, false);
    std::string read;
    for (const TokenId id : ids)
      read += tokenizer_->bytes(id, true);
    return read == bytes ? ids : longest_matches(bytes);
  }

private:
  void add(const std::string& key, TokenId id) {
    const auto [at, fresh] = ids_.try_emplace(key, id);
    if (fresh)
      return;
    const auto encoded = tokenizer_->encode(std::string_view(key).substr(1), false);
    if (!encoded.empty() && encoded.back() == id)
      at->second = id;
  }

  /// Encodes bytes that the tokenizer cannot: a part of a character, or text to which it adds a
  /// blank.
  std::vector<TokenId> longest_matches(std::string_view bytes) const {
    std::vector<TokenId> ids;
    while (!bytes.empty()) {
      std::size_t length = std::min<std::size_t>(bytes.size(), limits::vocabulary_match_bytes);
      TokenId id = -1;
      for (; length > 0; --length)
        if (id = find('t' + std::string(bytes.substr(0, length))); id >= 0)
          break;
      if (id >= 0)
        ids.push_back(id);
      bytes.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return ids;
  }

  const Tokenizer* tokenizer_;
  std::vector<bool> special_;
  boost::unordered_flat_map<std::string, TokenId> ids_;
};

/// Returns what a tokenizer puts before a text.
std::vector<TokenId> opening_of(const Tokenizer& tokenizer) {
  const auto plain = tokenizer.encode("a", false);
  auto whole = tokenizer.encode("a", true);
  whole.erase(std::search(whole.begin(), whole.end(), plain.begin(), plain.end()), whole.end());
  return whole;
}

/// Cuts a long reading to its end, which says most about what comes next.
std::vector<TokenId> cut(std::vector<TokenId> reading) {
  if (reading.size() > limits::vocabulary_reading_max)
    reading.erase(reading.begin(), reading.end() - limits::vocabulary_reading_max);
  return reading;
}

} // namespace

VocabularyMap::VocabularyMap(const Tokenizer& target, const Tokenizer& draft)
    : says_(std::size_t(target.vocabulary()), -1), readings_(says_.size()),
      opening_(opening_of(draft)) {
  const ByBytes theirs(target);
  const ByBytes ours(draft);
  if (const auto opening = opening_of(target); !opening.empty())
    target_opening_ = opening.front();
  unknown_ = ours.encode("\xEF\xBF\xBD");
  if (unknown_.empty())
    unknown_ = {0};
  for (TokenId id = 0; id < target.vocabulary(); ++id) {
    const std::string key = target.known(id) ? theirs.key(id) : std::string();
    if (key.size() <= 1)
      continue;
    ++known_;
    const TokenId same = ours.find(key);
    shared_ += same >= 0;
    if (theirs.find(key) == id)
      says_[std::size_t(id)] = same;
    readings_[std::size_t(id)] =
        same >= 0 ? std::vector{same} : cut(ours.encode(std::string_view(key).substr(1)));
  }
}

bool VocabularyMap::opens(int position, TokenId token) const {
  return position == 0 && token == target_opening_ && !opening_.empty();
}

const std::vector<TokenId>& VocabularyMap::reading(TokenId token) const {
  const bool has_one =
      token >= 0 && std::size_t(token) < readings_.size() && !readings_[std::size_t(token)].empty();
  return has_one ? readings_[std::size_t(token)] : unknown_;
}

void VocabularyMap::read(int position, TokenId token, std::vector<TokenId>& to) const {
  if (position == 0)
    to.insert(to.end(), opening_.begin(), opening_.end());
  if (const auto& ids = reading(token); !opens(position, token))
    to.insert(to.end(), ids.begin(), ids.end());
}

int VocabularyMap::count(int position, TokenId token) const {
  return int((position == 0 ? opening_.size() : 0) +
             (opens(position, token) ? 0 : reading(token).size()));
}

Result<std::shared_ptr<const VocabularyMap>> map_vocabularies(const Tokenizer& target,
                                                              const Tokenizer& draft) {
  if (check_same_vocabulary(target, draft))
    return nullptr;
  auto map = std::make_shared<const VocabularyMap>(target, draft);
  if (map->share() < limits::vocabulary_share_min)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the draft has {:.0f} % of the target's tokens ({} of {}), which is "
                            "too little to draft with",
                            100 * map->share(), map->shared(), map->known()),
                fmt::format("use a draft model that has {:.0f} % or more",
                            100 * limits::vocabulary_share_min));
  return map;
}

} // namespace paceline::text
