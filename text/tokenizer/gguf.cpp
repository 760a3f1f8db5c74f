#include "text/tokenizer/gguf.hpp"

#include "text/json.hpp"
#include "text/limits.hpp"
#include "text/tokenizer/gguf_cuts.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pipeline.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace paceline::text {
namespace json = boost::json;
namespace {

json::object split_by(const json::value& pattern) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}};
}

json::object sequence(std::string_view list, json::array steps) {
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

json::object replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// Translates a vocabulary into the words of tokenizer.json.
class Translation {
public:
  Translation(const std::string& path, const GgufVocabulary& from) : path_(path), from_(from) {}

  Result<json::object> run() {
    if (auto checked = check_lists(); !checked)
      return tl::unexpected(checked.error());
    auto done = from_.model == "gpt2"     ? translate_bytes()
                : from_.model == "llama"  ? translate_pieces()
                : from_.model == "gemma4" ? translate_characters()
                                          : refuse_model();
    if (!done)
      return tl::unexpected(done.error());
    if (auto around = translate_around(); !around)
      return tl::unexpected(around.error());
    root_["added_tokens"] = added_tokens();
    model_["type"] = "BPE";
    model_["vocab"] = vocabulary();
    root_["model"] = std::move(model_);
    return std::move(root_);
  }

private:
  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(ErrorCode::corrupt, fmt::format("{}: {}", path_, what), damaged_tokenizer_hint);
  }

  Result<void> refuse_model() const {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: tokenizer.ggml.model {} is not known", path_, shown(from_.model)),
                "use a model whose tokenizer is one of gpt2, llama, gemma4");
  }

  Result<void> check_lists() const {
    const std::size_t count = from_.tokens.size();
    if (count == 0 || count > std::size_t(limits::vocabulary_max))
      return wrong(fmt::format("tokenizer.ggml.tokens has {} tokens, where 1 to {} belong", count,
                               limits::vocabulary_max));
    const auto fits = [&](std::size_t size) { return size == 0 || size == count; };
    if (!fits(from_.scores.size()))
      return wrong(fmt::format("tokenizer.ggml.scores has {} scores for {} tokens",
                               from_.scores.size(), count));
    if (std::ranges::any_of(from_.scores, [](float score) { return std::isnan(score); }))
      return wrong("tokenizer.ggml.scores has a score that is no number");
    if (!fits(from_.types.size()))
      return wrong(fmt::format("tokenizer.ggml.token_type has {} types for {} tokens",
                               from_.types.size(), count));
    for (std::size_t id = 0; id < count; ++id)
      if (sanitize_utf8(from_.tokens[id]) != from_.tokens[id])
        return wrong(fmt::format("token {} is no UTF-8", id));
    return {};
  }

  /// Translates GPT-2's byte-level BPE.
  Result<void> translate_bytes() {
    const GgufCut* cut = find_cut(from_.pre);
    if (!cut)
      return fail(
          ErrorCode::unsupported,
          fmt::format("{}: tokenizer.ggml.pre {} is not known", path_, shown(from_.pre)),
          "use a model whose texts are cut in another way; guessing would make other tokens");
    adds_begin_ = cut->adds_begin;
    json::array steps;
    for (const char* expression : cut->expressions)
      steps.push_back(split_by({{"Regex", expression}}));
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    root_["pre_tokenizer"] = sequence("pretokenizers", std::move(steps));
    root_["decoder"] = {{"type", "ByteLevel"}};
    model_["ignore_merges"] = cut->whole_words;
    return translate_merges();
  }

  /// Translates SentencePiece's BPE: two pieces that make a third are a merge, and the score is its
  /// rank.
  Result<void> translate_pieces() {
    adds_begin_ = true;
    translate_blanks(from_.add_space_prefix.value_or(true));
    return {};
  }

  /// Translates the same with merges in place of scores (Gemma 4); newlines stand by themselves.
  Result<void> translate_characters() {
    adds_begin_ = true;
    translate_blanks(from_.add_space_prefix.value_or(false));
    root_["pre_tokenizer"] = split_by({{"Regex", "\n+"}});
    return translate_merges();
  }

  void translate_blanks(bool prefixed) {
    json::array normalizers{replace(" ", sentencepiece_blank)};
    json::array decoders{
        replace(sentencepiece_blank, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (prefixed) {
      normalizers.insert(normalizers.begin(),
                         json::object{{"type", "Prepend"}, {"prepend", sentencepiece_blank}});
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    root_["normalizer"] = sequence("normalizers", std::move(normalizers));
    root_["decoder"] = sequence("decoders", std::move(decoders));
    model_["byte_fallback"] = true;
    model_["fuse_unk"] = true;
    for (std::size_t id = from_.tokens.size(); id-- > 0;)
      if (from_.type(id) == GgufVocabulary::unknown)
        model_["unk_token"] = from_.tokens[id]; // the first of them counts
  }

  Result<void> translate_merges() {
    if (from_.merges.empty())
      return wrong("tokenizer.ggml.merges is missing");
    json::array merges;
    merges.reserve(from_.merges.size());
    for (const std::string_view merge : from_.merges)
      merges.emplace_back(merge);
    model_["merges"] = std::move(merges);
    return {};
  }

  /// Translates the tokens that are put around a text.
  Result<void> translate_around() {
    json::array single;
    json::object tokens;
    const auto put = [&](const char* name, bool wanted, std::optional<std::int64_t> id) {
      if (!wanted)
        return true;
      if (!id || *id < 0 || std::size_t(*id) >= from_.tokens.size())
        return false;
      single.push_back(json::object{{"SpecialToken", {{"id", name}}}});
      tokens[name] = {{"ids", json::array{*id}}};
      return true;
    };
    if (!put("bos", from_.add_begin.value_or(adds_begin_), from_.begin))
      return wrong("tokenizer.ggml.bos_token_id is no token's, and is put before every text");
    single.push_back(json::object{{"Sequence", {{"id", "A"}}}});
    if (!put("eos", from_.add_end.value_or(false), from_.end))
      return wrong("tokenizer.ggml.eos_token_id is no token's, and is put behind every text");
    root_["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", std::move(single)},
                               {"special_tokens", std::move(tokens)}};
    return {};
  }

  static bool strips(std::string_view token) {
    return token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
  }

  /// Returns the tokens that are found in a text as they are spelled.
  json::array added_tokens() const {
    json::array out;
    for (std::size_t id = 0; id < from_.tokens.size(); ++id) {
      const auto type = from_.type(id);
      const bool special = type == GgufVocabulary::control || type == GgufVocabulary::unknown;
      if ((special || type == GgufVocabulary::user_defined) && !from_.tokens[id].empty())
        out.push_back({{"id", std::int64_t(id)},
                       {"content", from_.tokens[id]},
                       {"special", special},
                       {"rstrip", from_.strips_right && strips(from_.tokens[id])},
                       {"normalized", false}});
    }
    return out;
  }

  /// Returns [[piece, score] by id]; null in a score's place: no text becomes this token.
  json::array vocabulary() const {
    json::array out;
    out.reserve(from_.tokens.size());
    for (std::size_t id = 0; id < from_.tokens.size(); ++id) {
      const auto type = from_.type(id);
      const bool found = type == GgufVocabulary::normal || type == GgufVocabulary::user_defined;
      const double score = id < from_.scores.size() ? double(from_.scores[id]) : 0;
      const std::string_view piece = from_.tokens[id];
      out.push_back(
          {piece.empty() ? json::string(fmt::format("[EMPTY_{}]", id)) : json::string(piece),
           found ? json::value(score) : json::value()});
    }
    return out;
  }

  const std::string& path_;
  const GgufVocabulary& from_;
  bool adds_begin_ = false;
  json::object root_;
  json::object model_;
};

} // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const std::string& path,
                                                        const GgufVocabulary& vocabulary) {
  return Translation(path, vocabulary).run().and_then([&](const json::object& root) {
    return Pipeline::read(path, root);
  });
}

} // namespace paceline::text
