#include "text/tokenizer/pattern.hpp"

#include "text/tokenizer/part.hpp"

namespace paceline::text {

Result<Pattern> read_pattern(Part& part) {
  const boost::json::value* value = part.fields().find("pattern");
  const boost::json::object* object = value ? value->if_object() : nullptr;
  const auto text = [&](const char* kind) -> const boost::json::string* {
    const boost::json::value* found = object ? object->if_contains(kind) : nullptr;
    return found ? found->if_string() : nullptr;
  };
  if (const auto* literal = text("String"); literal && !literal->empty())
    return std::string(*literal);
  if (const auto* expression = text("Regex"))
    return Regex::compile(std::string(*expression), part.path()).map([](Regex regex) {
      return Pattern(std::move(regex));
    });
  return part.wrong("has no pattern");
}

} // namespace paceline::text
