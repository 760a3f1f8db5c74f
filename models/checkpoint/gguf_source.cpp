#include "models/checkpoint/gguf_source.hpp"

#include "models/checkpoint/chat_template_file.hpp"
#include "models/checkpoint/gguf_config.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_tensors.hpp"
#include "models/limits.hpp"
#include "sampling/fields.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"
#include "text/tokenizer/gguf.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

using text::GgufVocabulary;

/// Reads typed keys of a file; remembers the first one that is wrong.
class Keys {
public:
  explicit Keys(const GgufFiles& files) : files_(files) {}

  std::optional<std::int64_t> integer(const char* key) { return keep(files_.integer(key)); }
  std::optional<double> number(const char* key) { return keep(files_.number(key)); }
  std::optional<bool> boolean(const char* key) { return keep(files_.boolean(key)); }
  std::string string(const char* key) { return keep(files_.string(key)).value_or(""); }

  std::vector<std::string_view> strings(const char* key) {
    return list<std::string_view>(key, "texts", [](const auto& value) { return value.strings(); });
  }
  std::vector<float> numbers(const char* key) {
    return list<float>(key, "numbers", [](const auto& value) { return value.numbers(); });
  }
  std::vector<std::int64_t> integers(const char* key) {
    return list<std::int64_t>(key, "integers", [](const auto& value) { return value.integers(); });
  }

  /// Returns a number within its bounds, or `absent` if there is none.
  double number(const char* key, double low, double high, double absent) {
    const double out = number(key).value_or(absent);
    if (out >= low && out <= high)
      return out;
    wrong(fmt::format("{} is not a number from {} to {}", key, low, high));
    return absent;
  }

  const std::optional<Error>& error() const { return error_; }

private:
  void wrong(const std::string& what) {
    if (!error_)
      error_ = files_.wrong(what).value();
  }

  template <class T>
  std::optional<T> keep(const Result<std::optional<T>>& read) {
    if (!read && !error_)
      error_ = read.error();
    return read ? *read : std::nullopt;
  }

  template <class T, class F>
  std::vector<T> list(const char* key, const char* of, const F& get) {
    const GgufValue* value = files_.find(key);
    if (!value)
      return {};
    if (auto out = get(*value))
      return std::move(*out);
    wrong(fmt::format("{} is not a list of {}", key, of));
    return {};
  }

  const GgufFiles& files_;
  std::optional<Error> error_;
};

/// Ids of SentencePiece, for files that do not name others.
constexpr std::int64_t sentencepiece_begin = 1;
constexpr std::int64_t sentencepiece_end = 2;

Result<GgufVocabulary> read_vocabulary(const GgufFiles& files) {
  Keys keys(files);
  GgufVocabulary out;
  out.model = keys.string("tokenizer.ggml.model");
  out.pre = keys.string("tokenizer.ggml.pre");
  out.tokens = keys.strings("tokenizer.ggml.tokens");
  out.scores = keys.numbers("tokenizer.ggml.scores");
  out.types = keys.integers("tokenizer.ggml.token_type");
  out.merges = keys.strings("tokenizer.ggml.merges");
  out.begin = keys.integer("tokenizer.ggml.bos_token_id");
  out.end = keys.integer("tokenizer.ggml.eos_token_id");
  if (out.model == "llama") {
    out.begin = out.begin.value_or(sentencepiece_begin);
    out.end = out.end.value_or(sentencepiece_end);
  }
  out.add_begin = keys.boolean("tokenizer.ggml.add_bos_token");
  out.add_end = keys.boolean("tokenizer.ggml.add_eos_token");
  out.add_space_prefix = keys.boolean("tokenizer.ggml.add_space_prefix");
  out.strips_right = out.model == "llama" && keys.string("general.architecture") == "phi3";
  if (keys.error())
    return tl::unexpected(*keys.error());
  if (out.model.empty() || out.tokens.empty())
    return files.wrong(
        fmt::format("tokenizer.ggml.{} is missing", out.model.empty() ? "model" : "tokens"));
  return out;
}

/// Texts of the tokens that end a turn, for most files have no key for them.
constexpr std::array<std::string_view, 12> turn_ends{
    "<|eot_id|>", "<|im_end|>", "<|end|>",         "<|return|>", "<end_of_turn>", "<|endoftext|>",
    "<|eom_id|>", "<EOT>",      "<|end_of_text|>", "[EOT]",      "[EOS]",         "<turn|>"};

std::vector<TokenId> ends_of(Keys& keys, const GgufVocabulary& vocabulary) {
  std::vector<TokenId> out;
  const auto add = [&](std::optional<std::int64_t> id) {
    if (id && *id >= 0 && std::size_t(*id) < vocabulary.tokens.size() &&
        std::ranges::find(out, TokenId(*id)) == out.end())
      out.push_back(TokenId(*id));
  };
  add(vocabulary.end);
  add(keys.integer("tokenizer.ggml.eot_token_id"));
  add(keys.integer("tokenizer.ggml.eom_token_id"));
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
    if (vocabulary.type(id) == GgufVocabulary::control &&
        std::ranges::find(turn_ends, vocabulary.tokens[id]) != turn_ends.end())
      add(std::int64_t(id));
  return out;
}

/// Reads sampling options. Tokens are drawn only if the file gives a temperature; else decoding is
/// greedy.
void read_warping(Keys& keys, sampling::Warping& w) {
  const auto read = [&](const char* key, std::string_view name, std::optional<double> least = {}) {
    const auto& field = sampling::request_number(name);
    const base::NumberRange& range = field.range;
    const double given =
        keys.number(fmt::format("general.sampling.{}", key).c_str(), least.value_or(range.least),
                    range.most, *field.warping.get(w));
    field.warping.set(w, std::max(given, range.least));
  };
  read("penalty_repeat", "repetition_penalty");
  const sampling::Warping greedy = w;
  read("temp", "temperature");
  read("top_k", "top_k", -1); // -1: all.
  read("top_p", "top_p", 0);  // 0: the likeliest alone.
  read("min_p", "min_p");
  if (w.greedy())
    w = greedy;
}

/// Returns the special tokens that templates may name.
text::ChatTemplate::Variables special_tokens(Keys& keys, const GgufVocabulary& vocabulary) {
  text::ChatTemplate::Variables out;
  const auto add = [&](const char* name, std::optional<std::int64_t> id) {
    if (id && *id >= 0 && std::size_t(*id) < vocabulary.tokens.size())
      out.emplace_back(name, text::sanitize_utf8(vocabulary.tokens[std::size_t(*id)]));
  };
  add("bos_token", vocabulary.begin);
  add("eos_token", vocabulary.end);
  add("unk_token", keys.integer("tokenizer.ggml.unknown_token_id"));
  add("sep_token", keys.integer("tokenizer.ggml.seperator_token_id")); // spelled like this in files
  add("pad_token", keys.integer("tokenizer.ggml.padding_token_id"));
  add("mask_token", keys.integer("tokenizer.ggml.mask_token_id"));
  return out;
}

/// Calls use(vocabulary, keys), which may read more keys.
template <class F>
auto with_vocabulary(const std::string& location, const F& use)
    -> decltype(use(std::declval<const GgufVocabulary&>(), std::declval<Keys&>())) {
  const auto files = GgufFiles::open(location);
  if (!files)
    return tl::unexpected(files.error());
  const auto vocabulary = read_vocabulary(**files);
  if (!vocabulary)
    return tl::unexpected(vocabulary.error());
  Keys keys(**files);
  auto out = use(*vocabulary, keys);
  if (keys.error())
    return tl::unexpected(*keys.error());
  return out;
}

} // namespace

Result<std::optional<std::string>> find_gguf(const std::string& location) {
  std::error_code ignored;
  if (!fs::is_directory(location, ignored))
    return is_gguf(location) ? std::optional(location) : std::nullopt;
  if (fs::exists(fs::path(location) / "config.json", ignored))
    return std::nullopt;
  const auto found = gguf_models(location);
  if (found.size() > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} holds {} GGUF models", text::shown_path(location), found.size()),
                "give one of them, such as " + text::shown_path(found.front().string()));
  return found.empty() ? std::nullopt : std::optional(found.front().string());
}

Result<ModelConfig> GgufSource::config() const {
  return GgufFiles::open(location()).and_then([](const auto& files) {
    return read_gguf_config(*files);
  });
}

Result<std::unique_ptr<TensorSource>> GgufSource::tensors(const ModelConfig& config) const {
  return GgufFiles::open(location()).map([&](auto&& files) -> std::unique_ptr<TensorSource> {
    return std::make_unique<GgufTensors>(std::move(files), config);
  });
}

Result<std::unique_ptr<TensorSource>> GgufSource::mtp_tensors(const ModelConfig& config) const {
  if (config.draft_blocks == 0 || !family_of(config.architecture).mtp)
    return nullptr;
  return GgufFiles::open(location()).map([&](auto&& files) -> std::unique_ptr<TensorSource> {
    if (!files->tensor(fmt::format("blk.{}.nextn.eh_proj.weight", config.layers)))
      return nullptr; // Some programs leave such blocks out, and keep their number.
    return std::make_unique<GgufTensors>(std::move(files), config, GgufScope::draft_block);
  });
}

Result<std::shared_ptr<const text::Tokenizer>> GgufSource::tokenizer() const {
  return with_vocabulary(location(), [&](const GgufVocabulary& vocabulary, Keys&) {
    return text::make_tokenizer(text::shown_path(location()), vocabulary);
  });
}

Result<text::ChatTemplate> GgufSource::chat_template(const std::string& opening) const {
  const auto read = [&](const GgufVocabulary& vocabulary, Keys& keys) {
    const std::string source = keys.string("tokenizer.chat_template");
    if (source.empty())
      return Result<text::ChatTemplate>(text::ChatTemplate::plain(opening));
    return parse_chat_template(location() + ": tokenizer.chat_template",
                               text::sanitize_utf8(source), special_tokens(keys, vocabulary));
  };
  return with_vocabulary(location(), read);
}

Result<text::ChatTemplate> GgufSource::chat_template_from(const std::string& file) const {
  return with_vocabulary(location(), [&](const GgufVocabulary& vocabulary, Keys& keys) {
    return read_chat_template(file, special_tokens(keys, vocabulary));
  });
}

Result<GenerationDefaults> GgufSource::generation_defaults() const {
  return with_vocabulary(location(), [](const GgufVocabulary& vocabulary, Keys& keys) {
    GenerationDefaults out;
    out.end_of_text = ends_of(keys, vocabulary);
    read_warping(keys, out.warping);
    return Result<GenerationDefaults>(std::move(out));
  });
}

Result<std::string> GgufSource::description() const {
  const auto files = GgufFiles::open(location());
  if (!files)
    return tl::unexpected(files.error());
  Keys keys(**files);
  std::string out = "GGUF";
  if (const std::string name = keys.string("general.name"); !name.empty())
    out += " of " + text::shown(name);
  out += ", architecture " + text::shown(keys.string("general.architecture"));
  const std::string pre = keys.string("tokenizer.ggml.pre");
  out += fmt::format(", tokenizer {}{}", text::shown(keys.string("tokenizer.ggml.model")),
                     pre.empty() ? "" : fmt::format(" ({})", text::shown(pre)));
  if (const std::size_t parts = (*files)->paths().size(); parts > 1)
    out += fmt::format(", {} files", parts);
  return keys.error() ? Result<std::string>(tl::unexpected(*keys.error())) : out;
}

} // namespace paceline::models
