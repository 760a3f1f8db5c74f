// Sampling defaults and end-of-text ids of a checkpoint.
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"

#include <boost/json/array.hpp>
#include <filesystem>

namespace paceline::models {
namespace json = boost::json;
namespace {

/// One id or a list of ids; false when it is neither.
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

/// Values that are not listed keep the neutral value of `Sampling`, as servers of the field do
/// (not the defaults of the library that wrote the file).
void read_warping(text::JsonFields& fields, sampling::Warping& w) {
  const bool sample = fields.boolean("do_sample", false);
  const auto temperature = float(fields.number("temperature", 0, 100, 1.0));
  const auto top_k = int(fields.integer("top_k", 0, text::limits::vocabulary_max, 0));
  const auto top_p = float(fields.number("top_p", 1e-6, 1, 1.0));
  const auto min_p = float(fields.number("min_p", 0, 1, 0.0));
  w.repetition_penalty = float(fields.number("repetition_penalty", 1e-3, 1e3, 1.0));
  if (!sample)
    return;
  w.temperature = temperature;
  w.top_k = top_k;
  w.top_p = top_p;
  w.min_p = min_p;
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
    if (first)
      read_warping(fields, out.warping);
    read_end_of_text(fields, out);
    if (fields.error())
      return tl::unexpected(*fields.error());
  }
  return out;
}

} // namespace paceline::models
