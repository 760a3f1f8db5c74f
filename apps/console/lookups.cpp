#include "apps/console/lookups.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {

std::string measured_scope(std::string_view what, int repetition) {
  return fmt::format("{} {}", what, repetition);
}

boost::json::object lookups_json(const Engine& engine, std::string_view scope) {
  const auto drafts = [&](const char* name) {
    return std::ranges::find(engine.drafters(), name) != engine.drafters().end();
  };
  boost::json::object lookups;
  if (drafts("suffix"))
    lookups["suffix"] = scope.empty()
                            ? std::string("its own text")
                            : fmt::format("its own text, and earlier answers of {}", scope);
  if (drafts("ngram")) // It remembers nothing but the request's own text.
    lookups["ngram"] = "its own text";
  return lookups;
}

std::string lookups_text(const boost::json::object& lookups) {
  std::string text;
  for (const auto& [name, seen] : lookups)
    text += fmt::format("{}{} had seen {}", text.empty() ? "" : "; ", std::string_view(name),
                        std::string_view(seen.as_string()));
  return text;
}

} // namespace paceline::apps
