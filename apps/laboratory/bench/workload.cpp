#include "apps/laboratory/bench/workload.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/installed.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_to.hpp>

namespace paceline::apps {
namespace {

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

} // namespace

std::string builtin_prompts() {
  const auto installed = models::installed_data("prompts.json");
  return installed ? installed->string() : PACELINE_BENCH_PROMPTS;
}

Result<std::vector<std::string>> load_prompts(const std::string& path) {
  const auto file = models::read_json_object(path);
  if (!file)
    return fail(file.error().code, file.error().message, "give a JSON file of prompts");
  const auto malformed = [&path] {
    return fail(ErrorCode::corrupt, path + " holds no prompts",
                R"(write {"prompts": [["first line", "second line"], ...]})");
  };
  const auto* list = file->if_contains("prompts");
  if (!list)
    return malformed();
  const auto prompts = boost::json::try_value_to<std::vector<std::vector<std::string>>>(*list);
  if (prompts.has_error() || prompts->empty())
    return malformed();
  std::vector<std::string> texts;
  for (const auto& lines : *prompts)
    texts.push_back(join(lines));
  return texts;
}

} // namespace paceline::apps
