#include "models/checkpoint/gguf_keys.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/folder_as_gguf.hpp"
#include "models/checkpoint/gguf_architecture_keys.hpp"
#include "text/json.hpp"
#include "text/tokenizer/to_gguf.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <system_error>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace fs = std::filesystem;
namespace {

/// Puts the ids of tokens that a file names.
void put_special(GgufMetadata& out, const text::GgufTokenizer& tokenizer, const json::object& names,
                 const std::vector<TokenId>& ends) {
  const auto put = [&](const char* key, std::optional<TokenId> id) {
    if (id)
      out.put(fmt::format("tokenizer.ggml.{}_token_id", key), std::uint32_t(*id));
  };
  const auto named = [&](const char* name) {
    const auto token = special_token(names, name);
    return token ? tokenizer.find(*token) : std::nullopt;
  };
  put("bos", tokenizer.begin ? tokenizer.begin : named("bos_token"));
  constexpr const char* end_keys[] = {"eos", "eot", "eom"};
  for (std::size_t i = 0; i < std::min(ends.size(), std::size(end_keys)); ++i)
    put(end_keys[i], ends[i]);
  put("unknown", named("unk_token"));
  put("padding", named("pad_token"));
}

void put_tokenizer(GgufMetadata& out, const text::GgufTokenizer& tokenizer) {
  out.put("tokenizer.ggml.model", tokenizer.model);
  out.put("tokenizer.ggml.pre", tokenizer.pre.empty() ? "default" : tokenizer.pre);
  out.put("tokenizer.ggml.tokens", tokenizer.tokens);
  out.put("tokenizer.ggml.token_type", tokenizer.types);
  if (!tokenizer.scores.empty())
    out.put("tokenizer.ggml.scores", tokenizer.scores);
  if (!tokenizer.merges.empty())
    out.put("tokenizer.ggml.merges", tokenizer.merges);
  out.put("tokenizer.ggml.add_bos_token", tokenizer.add_begin);
  out.put("tokenizer.ggml.add_eos_token", tokenizer.add_end);
  out.put("tokenizer.ggml.add_space_prefix", tokenizer.add_space_prefix);
}

/// Puts the tokenizer, after all that reads it here has found it to be in order.
Result<void> put_texts(GgufMetadata& out, const FolderSource& source, const ModelConfig& config) {
  const auto own = source.tokenizer();
  if (!own)
    return tl::unexpected(own.error());
  const auto defaults = source.generation_defaults();
  if (!defaults)
    return tl::unexpected(defaults.error());
  const auto chat = source.chat_template("");
  if (!chat)
    return tl::unexpected(chat.error());
  const std::string path = source.location() + "/tokenizer.json";
  const auto tokenizer = read_json_object(path).and_then([&](const json::object& root) {
    return text::to_gguf(text::shown_path(path), root, config.vocabulary);
  });
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  const std::vector<TokenId>& ends = defaults->end_of_text;
  if (tokenizer->end && (ends.empty() || ends.front() != *tokenizer->end))
    return fail(ErrorCode::unsupported,
                fmt::format("{}: GGUF files have no word for a token behind every text that is not "
                            "the first to end one",
                            text::shown_path(path)),
                into_folder_hint);
  const auto names = read_json_object(source.location() + "/tokenizer_config.json");
  put_tokenizer(out, *tokenizer);
  put_special(out, *tokenizer, names.value_or(json::object()), ends);
  if (chat->stops().empty()) // Only the plain format, of models without a template, has such.
    out.put("tokenizer.chat_template", chat->source());
  const sampling::Warping& warping = defaults->warping;
  if (!warping.greedy()) {
    out.put("general.sampling.temp", float(warping.temperature));
    if (warping.top_k > 0)
      out.put("general.sampling.top_k", std::uint32_t(warping.top_k));
    out.put("general.sampling.top_p", float(warping.top_p));
    out.put("general.sampling.min_p", float(warping.min_p));
  }
  if (warping.repetition_penalty != 1)
    out.put("general.sampling.penalty_repeat", warping.repetition_penalty);
  return {};
}

} // namespace

Result<GgufMetadata> gguf_metadata_of(const std::string& folder, const ModelConfig& config,
                                      const std::string& architecture) {
  GgufMetadata out;
  out.put("general.architecture", architecture);
  out.put("general.type", "model");
  std::error_code ignored;
  out.put("general.name", fs::weakly_canonical(folder, ignored).filename().string());
  return put_architecture(out, folder, config, architecture)
      .and_then([&] { return put_texts(out, FolderSource(folder), config); })
      .map([&] { return std::move(out); });
}

} // namespace paceline::models
