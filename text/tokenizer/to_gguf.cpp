#include "text/tokenizer/to_gguf.hpp"

#include "text/json.hpp"
#include "text/tokenizer/gguf.hpp"
#include "text/tokenizer/gguf_cuts.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/post_processor.hpp"
#include "text/tokenizer/vocabulary.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

namespace paceline::text {
namespace json = boost::json;
namespace {

constexpr const char* no_word_hint = "quantize it into a folder, or give a GGUF file of this model";

/// Reads the parts of a tokenizer.json that Pipeline has already found to be in order.
class ToGguf {
public:
  ToGguf(const std::string& path, const json::object& root, int vocabulary)
      : path_(path), root_(root), vocabulary_(std::size_t(vocabulary)) {}

  Result<GgufTokenizer> run() {
    const json::value* model = root_.if_contains("model");
    if (!model || !model->is_object())
      return tl::unexpected(no_word("no model").error());
    model_ = &model->get_object();
    return read_steps()
        .and_then([&] { return read_tokens(); })
        .and_then([&] { return byte_level_ ? write_bytes() : write_pieces(); })
        .and_then([&] { return read_around(); })
        .and_then([&] { return check_begin(); })
        .map([&] { return std::move(out_); });
  }

private:
  Result<void> no_word(const std::string& what) const {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: GGUF files have no word for {}", path_, what), no_word_hint);
  }

  /// Reads how texts are changed and cut before the model sees them.
  Result<void> read_steps() {
    return Part::for_each(path_, "normalizer", root_.if_contains("normalizer"), "normalizers",
                          [&](Part& part) { return read_normalizer(part); })
        .and_then([&] {
          return Part::for_each(path_, "pre_tokenizer", root_.if_contains("pre_tokenizer"),
                                "pretokenizers",
                                [&](Part& part) { return read_pre_tokenizer(part); });
        });
  }

  /// Returns the text that a step looks for; empty: it looks for something else.
  static std::string searched(const Part& part) {
    const json::value* pattern = part.object().if_contains("pattern");
    const json::object* how = pattern ? pattern->if_object() : nullptr;
    const json::value* text = how ? how->if_contains("String") : nullptr;
    return text && text->is_string() ? std::string(text->get_string()) : "";
  }

  Result<void> read_normalizer(Part& part) {
    if (part.type() == "NFC")
      return {};
    if (part.type() == "Prepend" && part.fields().string("prepend", "") == sentencepiece_blank) {
      out_.add_space_prefix = true;
      return {};
    }
    if (part.type() == "Replace" && searched(part) == " " &&
        part.fields().string("content", "") == sentencepiece_blank) {
      blanks_ = true;
      return {};
    }
    return no_word("the normalizer " + shown(part.type()));
  }

  Result<void> read_pre_tokenizer(Part& part) {
    const json::value* pattern = part.object().if_contains("pattern");
    const json::object* how = pattern ? pattern->if_object() : nullptr;
    const bool inverted = part.fields().boolean("invert", false);
    const std::string behavior = part.fields().string("behavior", "");
    if (part.type() == "Split" && how && how->contains("Regex") && how->at("Regex").is_string() &&
        behavior == "Isolated" && !inverted) {
      expressions_.emplace_back(how->at("Regex").get_string());
      return {};
    }
    // Blanks are gone when SentencePiece's texts are cut, so this cuts nothing.
    if (part.type() == "Split" && searched(part) == " " && blanks_)
      return {};
    if (part.type() == "Digits" && part.fields().boolean("individual_digits", false)) {
      expressions_.emplace_back(digit_cut);
      return {};
    }
    if (part.type() == "Metaspace" &&
        part.fields().string("replacement", "") == sentencepiece_blank)
      return read_metaspace(part);
    if (part.type() == "ByteLevel" && !part.fields().boolean("add_prefix_space", true)) {
      byte_level_ = true;
      if (part.fields().boolean("use_regex", true))
        expressions_.emplace_back(gpt2_cut);
      return {};
    }
    return no_word("the pre_tokenizer " + shown(part.type()));
  }

  /// SentencePiece's blanks in newer files, which may also cut at them.
  Result<void> read_metaspace(Part& part) {
    const std::string prepend = part.fields().string(
        "prepend_scheme", part.fields().boolean("add_prefix_space", true) ? "always" : "never");
    if (part.fields().boolean("split", true))
      return no_word("a Metaspace that cuts at blanks");
    blanks_ = true;
    out_.add_space_prefix = prepend != "never";
    return {};
  }

  /// Reads the texts of all tokens, and which of them are special.
  Result<void> read_tokens() {
    auto tokens = Vocabulary::read(path_, model_->if_contains("vocab"));
    if (!tokens)
      return tl::unexpected(tokens.error());
    const json::value* added = root_.if_contains("added_tokens");
    const std::size_t last = count_of(*tokens, added);
    if (last > vocabulary_)
      return fail(ErrorCode::corrupt,
                  fmt::format("{}: there are {} tokens, and the embedding has {} rows", path_, last,
                              vocabulary_),
                  "the tokenizer is another model's");
    for (std::size_t id = 0; id < vocabulary_; ++id) {
      const bool known = id < tokens->tokens().size() && tokens->tokens()[id].known;
      out_.tokens.push_back(known ? tokens->tokens()[id].piece : fmt::format("[PAD{}]", id));
      out_.types.push_back(0);
      set_type(id, known ? GgufVocabulary::normal : GgufVocabulary::unused);
    }
    if (added && added->is_array())
      for (const json::value& token : added->get_array())
        add_token(token.as_object());
    return {};
  }

  static std::size_t count_of(const Vocabulary& tokens, const json::value* added) {
    std::size_t out = tokens.tokens().size();
    if (added && added->is_array())
      for (const json::value& token : added->get_array())
        if (const auto id = id_of(token.as_object().if_contains("id")))
          out = std::max(out, std::size_t(*id) + 1);
    return out;
  }

  void add_token(const json::object& token) {
    const auto id = std::size_t(id_of(token.if_contains("id")).value_or(0));
    const json::value* special = token.if_contains("special");
    out_.tokens[id] = std::string(token.at("content").as_string());
    set_type(id,
             special && *special == true ? GgufVocabulary::control : GgufVocabulary::user_defined);
  }

  void set_type(std::size_t id, GgufVocabulary::TokenType type) {
    out_.types[id] = std::int32_t(type);
  }

  Result<void> write_bytes() {
    const json::value* whole = model_->if_contains("ignore_merges");
    const GgufCut* cut = find_cut(expressions_, whole && *whole == true);
    if (!cut)
      return no_word(fmt::format("the way in which texts are cut, {}",
                                 shown(fmt::format("{}", fmt::join(expressions_, ", ")))));
    out_.model = "gpt2";
    out_.pre = *cut->names.begin();
    out_.add_space_prefix = false;
    return for_merges([&](const std::string& left, const std::string& right) {
      out_.merges.push_back(left + " " + right);
      return true;
    });
  }

  /// Writes SentencePiece's BPE: with scores, or with merges where these do not say the same.
  Result<void> write_pieces() {
    const json::value* falls_back = model_->if_contains("byte_fallback");
    if (!blanks_ || !expressions_.empty() || !falls_back || *falls_back != true)
      return no_word("this kind of BPE");
    for (std::size_t id = 0; id < out_.tokens.size(); ++id)
      if (is_byte(out_.tokens[id]) && out_.types[id] == GgufVocabulary::normal)
        set_type(id, GgufVocabulary::byte);
    if (const json::value* unknown = model_->if_contains("unk_token");
        unknown && unknown->is_string())
      if (const auto id = out_.find(unknown->get_string()))
        set_type(std::size_t(*id), GgufVocabulary::unknown);
    const auto ordered = write_scores();
    return ordered || out_.add_space_prefix ? ordered : write_characters();
  }

  /// Writes scores in the place of merges: of two pairs the one is merged first whose token has the
  /// higher score. SentencePiece numbers tokens in that order, so the id says it, if the merges
  /// agree.
  Result<void> write_scores() {
    out_.model = "llama";
    for (std::size_t id = 0; id < out_.tokens.size(); ++id)
      out_.scores.push_back(-float(id));
    boost::unordered_flat_map<std::string, std::size_t, StringHash, std::equal_to<>> ids;
    for (std::size_t id = 0; id < out_.tokens.size(); ++id)
      ids.emplace(out_.tokens[id], id);
    std::size_t before = 0;
    return for_merges([&](const std::string& left, const std::string& right) {
      const auto at = ids.find(left + right);
      const bool in_order = at != ids.end() && at->second >= before;
      before = in_order ? at->second : before;
      return in_order;
    });
  }

  /// Writes merges as Gemma 4's files have them. Newlines are cut from all else there, and a text
  /// has no blank before it.
  Result<void> write_characters() {
    out_.model = "gemma4";
    out_.scores.clear();
    return for_merges([&](const std::string& left, const std::string& right) {
      const std::string whole = left + right;
      out_.merges.push_back(left + " " + right);
      return whole.find('\n') == whole.npos || whole.find_first_not_of('\n') == whole.npos;
    });
  }

  static bool is_byte(std::string_view token) {
    return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
  }

  /// Calls take(left, right) for every merge in order; false: files have no word for it.
  template <class F>
  Result<void> for_merges(const F& take) const {
    const json::value* list = model_->if_contains("merges");
    if (!list || !list->is_array())
      return no_word("a BPE without merges");
    for (const json::value& merge : list->get_array()) {
      std::string left;
      std::string right;
      if (const json::array* pair = merge.if_array(); pair && pair->size() == 2) {
        left = std::string(pair->front().as_string());
        right = std::string(pair->back().as_string());
      } else if (merge.is_string()) {
        const std::string_view text = merge.get_string();
        const std::size_t blank = text.find(' ');
        left = text.substr(0, blank);
        right = blank == text.npos ? "" : text.substr(blank + 1);
      }
      const bool divisible = left.find(' ') == left.npos && right.find(' ') == right.npos;
      if (left.empty() || right.empty() || !divisible || !take(left, right))
        return no_word(fmt::format("the merge of {} and {}", shown(left), shown(right)));
    }
    return {};
  }

  /// Reads which tokens are put around a text.
  Result<void> read_around() {
    return PostProcessor::read(path_, root_.if_contains("post_processor"))
        .and_then([&](const PostProcessor& around) -> Result<void> {
          if (around.before.size() > 1 || around.after.size() > 1)
            return no_word("several tokens around a text");
          out_.add_begin = !around.before.empty();
          if (out_.add_begin)
            out_.begin = around.before.front();
          out_.add_end = !around.after.empty();
          if (out_.add_end)
            out_.end = around.after.front();
          return {};
        });
  }

  /// Refuses what readers of such files would change: they put a token before every text.
  Result<void> check_begin() const {
    return out_.model != "gemma4" || out_.add_begin
               ? Result<void>()
               : no_word("merges of SentencePiece without a token before every text");
  }

  const std::string& path_;
  const json::object& root_;
  std::size_t vocabulary_;
  const json::object* model_ = nullptr;
  bool blanks_ = false;     ///< Blanks become SentencePiece's mark.
  bool byte_level_ = false; ///< The model sees bytes in GPT-2's alphabet.
  std::vector<std::string> expressions_;
  GgufTokenizer out_;
};

} // namespace

std::optional<TokenId> GgufTokenizer::find(std::string_view token) const {
  const auto at = std::ranges::find(tokens, token);
  return at == tokens.end() ? std::nullopt : std::optional(TokenId(at - tokens.begin()));
}

Result<GgufTokenizer> to_gguf(const std::string& path, const json::object& root, int vocabulary) {
  return ToGguf(path, root, vocabulary).run();
}

} // namespace paceline::text
