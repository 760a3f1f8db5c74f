#include "text/tokenizer/part.hpp"

#include "text/tokenizer/unicode.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>

namespace paceline::text {
namespace json = boost::json;

const char* const damaged_tokenizer_hint = "the file is damaged; download the checkpoint again";
const char* const other_tokenizer_hint =
    "use a checkpoint whose tokenizer is byte-level BPE, SentencePiece BPE or Unigram";

namespace {

std::string type_of(const json::object& object) {
  const json::value* type = object.if_contains("type");
  return type && type->is_string() ? std::string(type->get_string()) : std::string();
}

} // namespace

Part::Part(std::string path, std::string kind, const json::object& object)
    : path_(std::move(path)), kind_(std::move(kind)), object_(&object), type_(type_of(object)),
      fields_(path_ + ": " + kind_ + " " + shown(type_), object) {}

Result<void> Part::for_each(const std::string& path, const std::string& kind,
                            const json::value* part, std::string_view list, const Step& step) {
  if (!part || part->is_null())
    return {};
  if (!part->is_object())
    return fail(ErrorCode::corrupt, fmt::format("{}: a {} is not an object", path, kind),
                damaged_tokenizer_hint);
  Part own(path, kind, part->get_object());
  if (own.type() != "Sequence")
    return step(own).and_then([&] { return own.finish(); });
  const json::value* steps = own.object().if_contains(list);
  if (!steps || !steps->is_array())
    return own.wrong(fmt::format("has no {}", list));
  for (const json::value& value : steps->get_array())
    if (auto done = for_each(path, kind, &value, list, step); !done)
      return done;
  return {};
}

std::string Part::text(std::string_view key) {
  const json::value* value = fields_.find(key);
  if (!value || !value->is_string())
    fields_.wrong(ErrorCode::corrupt, fmt::format("{} is not a string", key),
                  damaged_tokenizer_hint);
  return fields_.string(key, {});
}

std::string Part::character(std::string_view key) {
  std::string out = text(key);
  if (out.empty() || first_character(out).size != out.size())
    fields_.wrong(ErrorCode::corrupt, fmt::format("{} is not one character", key),
                  damaged_tokenizer_hint);
  return out;
}

Result<void> Part::finish() const {
  if (fields_.error())
    return tl::unexpected(*fields_.error());
  return {};
}

tl::unexpected<Error> Part::refuse(std::string_view what) const {
  const std::string name =
      fmt::format("a {} {}", kind_, type_.empty() ? "without type" : "of type " + shown(type_));
  return fail(ErrorCode::unsupported,
              fmt::format("{}: {}{}{} is not known", path_, what, what.empty() ? "" : " of ", name),
              other_tokenizer_hint);
}

tl::unexpected<Error> Part::wrong(std::string_view what) const {
  return fail(ErrorCode::corrupt, fmt::format("{}: the {} {} {}", path_, kind_, shown(type_), what),
              damaged_tokenizer_hint);
}

} // namespace paceline::text
