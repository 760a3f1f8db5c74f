// A tokenizer for a scripted model: token 17 reads " 17".
#include "base/parse_number.hpp"
#include "models/synthetic/scripted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::models {
namespace {

class ScriptedTokenizer final : public text::Tokenizer {
public:
  explicit ScriptedTokenizer(int vocabulary) : vocabulary_(vocabulary) {}

  /// Gives one id per word: a number in range is that id, any other word one made of its bytes.
  std::vector<TokenId> encode(std::string_view text, bool /*add_special*/) const override {
    constexpr const char* spaces = " \t\r\n";
    std::vector<TokenId> out;
    for (std::size_t at = text.find_first_not_of(spaces); at != text.npos;) {
      const std::size_t end = std::min(text.find_first_of(spaces, at), text.size());
      out.push_back(id_of(text.substr(at, end - at)));
      at = text.find_first_not_of(spaces, end);
    }
    return out;
  }
  std::string bytes(TokenId id, bool /*keep_special*/) const override { return piece(id); }
  std::string piece(TokenId id) const override {
    return known(id) ? fmt::format(" {}", id) : std::string();
  }
  int vocabulary() const override { return vocabulary_; }
  bool known(TokenId id) const override { return id >= 0 && id < vocabulary_; }
  std::vector<TokenId> special_ids() const override { return {}; }

private:
  TokenId id_of(std::string_view word) const {
    if (const auto id = base::parse_number<TokenId>(word); id && known(*id))
      return *id;
    std::uint32_t hash = 0;
    for (const char c : word)
      hash = hash * 31 + static_cast<unsigned char>(c);
    return TokenId(hash % std::uint32_t(vocabulary_));
  }

  int vocabulary_;
};

} // namespace

Result<std::shared_ptr<const text::Tokenizer>> make_scripted_tokenizer(std::string_view name) {
  const auto options = parse_scripted(name);
  if (!options)
    return tl::unexpected(options.error());
  return std::make_shared<const ScriptedTokenizer>(options->vocabulary);
}

} // namespace paceline::models
