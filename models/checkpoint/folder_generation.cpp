// Sampling defaults and end-of-text ids of a checkpoint.
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/limits.hpp"
#include "sampling/fields.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"

#include <boost/json/array.hpp>
#include <filesystem>
#include <span>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// Reads one id or a list of ids; returns false if the value is neither.
bool read_ids(const json::value& value, std::vector<TokenId>& out) {
  const auto add = [&](const json::value& id) {
    json::error_code failed;
    const auto number = id.is_number() ? id.to_number<std::int64_t>(failed) : std::int64_t(-1);
    if (failed || number < 0 || number >= text::limits::vocabulary_max)
      return false;
    out.push_back(TokenId(number));
    return true;
  };
  if (!value.is_array())
    return add(value);
  for (const json::value& id : value.get_array())
    if (!add(id))
      return false;
  return true;
}

void read_end_of_text(text::JsonFields& fields, GenerationDefaults& out) {
  const json::value* value = fields.find("eos_token_id");
  if (value && !read_ids(*value, out.end_of_text))
    fields.wrong(ErrorCode::corrupt, "eos_token_id is neither a token id nor a list of them",
                 "mend the file");
}

/// An option that changes the tokens, unless it is null, empty or the neutral value.
struct NotObeyed {
  const char* name;
  double neutral;
};
constexpr NotObeyed not_obeyed[] = {
    {"suppress_tokens", 0},
    {"begin_suppress_tokens", 0},
    {"bad_words_ids", 0},
    {"sequence_bias", 0},
    {"min_new_tokens", 0},
    {"min_length", 0},
    {"no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"penalty_alpha", 0},
    {"exponential_decay_length_penalty", 0},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"stop_strings", 0},
    {"guidance_scale", 1},
    {"watermarking_config", 0},
};
/// Options that do so only if tokens are drawn.
constexpr NotObeyed not_obeyed_sampling[] = {
    {"typical_p", 1}, {"epsilon_cutoff", 0}, {"eta_cutoff", 0}, {"top_h", 1}};

bool is_set(const json::value* value, double neutral) {
  if (!value || value->is_null() || (value->is_bool() && !value->get_bool()))
    return false;
  if (value->is_number())
    return value->to_number<double>() != neutral;
  return !(value->is_array() && value->get_array().empty()) &&
         !(value->is_object() && value->get_object().empty());
}

void note_not_obeyed(text::JsonFields& fields, GenerationDefaults& out) {
  const auto note = [&](std::span<const NotObeyed> options) {
    for (const auto& [name, neutral] : options)
      if (is_set(fields.find(name), neutral))
        out.not_obeyed.emplace_back(name);
  };
  note(not_obeyed);
  if (!out.warping.greedy())
    note(not_obeyed_sampling);
}

/// Reads the options of sampling. Values that are not listed keep the neutral value of `Sampling`,
/// as in other servers (not the defaults of the library that wrote the file).
void read_warping(text::JsonFields& fields, sampling::Warping& w) {
  const bool sample = fields.boolean("do_sample", false);
  for (const sampling::RequestNumber& field : sampling::request_numbers) {
    if (!field.warps())
      continue;
    const std::string name(field.name());
    const auto& [least, most, whole] = field.range;
    const double absent = name == "temperature" ? 1 : *field.warping.get(w);
    const double value = whole ? double(fields.integer(name, std::int64_t(least),
                                                       std::int64_t(most), std::int64_t(absent)))
                               : fields.number(name, least, most, absent);
    if (sample || name.ends_with("_penalty"))
      field.warping.set(w, value);
  }
}

} // namespace

Result<GenerationDefaults> FolderSource::generation_defaults() const {
  GenerationDefaults out;
  std::error_code ignored;
  for (const bool first : {true, false}) {
    const std::string path = file(first ? "generation_config.json" : "config.json");
    if ((first && !std::filesystem::exists(path, ignored)) || !out.end_of_text.empty())
      continue;
    const auto object = read_json_object(path);
    if (!object)
      return tl::unexpected(object.error());
    text::JsonFields fields(text::shown_path(path), *object);
    if (first) {
      read_warping(fields, out.warping);
      note_not_obeyed(fields, out);
    }
    read_end_of_text(fields, out);
    if (fields.error())
      return tl::unexpected(*fields.error());
  }
  if (out.end_of_text.empty())
    if (const auto end = tokenizers_end())
      out.end_of_text = {*end};
  return out;
}

/// Returns the id of tokenizer_config.json's eos_token, if the tokenizer has that token.
std::optional<TokenId> FolderSource::tokenizers_end() const {
  const auto object = read_json_object(file("tokenizer_config.json"));
  const auto name = object ? special_token(*object, "eos_token") : std::nullopt;
  if (!name)
    return std::nullopt;
  const auto tokenizer = this->tokenizer();
  if (!tokenizer)
    return std::nullopt;
  for (const TokenId id : (*tokenizer)->special_ids())
    if ((*tokenizer)->bytes(id, true) == *name)
      return id;
  const auto ids = (*tokenizer)->encode(*name, false);
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

} // namespace paceline::models
