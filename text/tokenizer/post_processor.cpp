#include "text/tokenizer/post_processor.hpp"

#include "text/tokenizer/vocabulary.hpp"

#include <boost/json/array.hpp>

namespace paceline::text {
namespace json = boost::json;
namespace {

const json::object* object_at(const json::object* in, std::string_view key) {
  const json::value* value = in ? in->if_contains(key) : nullptr;
  return value ? value->if_object() : nullptr;
}

/// Returns the ids of {"SpecialToken": {"id": NAME}}, which the part's "special_tokens" gives.
std::optional<std::vector<TokenId>> special_ids(const Part& part, const json::object* item) {
  const json::value* name = item ? item->if_contains("id") : nullptr;
  const json::object* all = object_at(&part.object(), "special_tokens");
  const json::object* token =
      name && name->is_string() ? object_at(all, name->get_string()) : nullptr;
  const json::value* ids = token ? token->if_contains("ids") : nullptr;
  if (!ids || !ids->is_array())
    return {};
  std::vector<TokenId> out;
  for (const json::value& value : ids->get_array()) {
    const auto id = id_of(&value);
    if (!id)
      return {};
    out.push_back(*id);
  }
  return out;
}

/// Reads the template for one text: tokens, the text ($A), tokens.
Result<PostProcessor> read_template(Part& part) {
  const json::value* items = part.fields().find("single");
  if (!items || !items->is_array())
    return part.wrong("has no template for one text");
  PostProcessor out;
  bool seen_text = false;
  for (const json::value& value : items->get_array()) {
    const json::object* item = value.if_object();
    if (object_at(item, "Sequence")) {
      if (seen_text)
        return part.refuse("a text that is repeated, that is,");
      seen_text = true;
      continue;
    }
    const auto ids = special_ids(part, object_at(item, "SpecialToken"));
    if (!ids)
      return part.wrong("has a template with an item that is neither text nor a special token");
    auto& side = seen_text ? out.after : out.before;
    side.insert(side.end(), ids->begin(), ids->end());
  }
  if (!seen_text)
    return part.wrong("has a template without the text");
  return out;
}

} // namespace

Result<PostProcessor> PostProcessor::read(const std::string& path, const json::value* part) {
  PostProcessor out;
  bool seen_template = false;
  const auto add = [&](Part& step) -> Result<void> {
    if (step.type() == "ByteLevel")
      return {}; // it concerns offsets only
    if (step.type() != "TemplateProcessing")
      return step.refuse();
    if (seen_template)
      return step.refuse("a second one");
    seen_template = true;
    return read_template(step).map([&](PostProcessor read) { out = std::move(read); });
  };
  return Part::for_each(path, "post_processor", part, "processors", add).map([&] {
    return std::move(out);
  });
}

} // namespace paceline::text
