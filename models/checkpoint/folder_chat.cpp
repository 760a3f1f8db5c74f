// The chat template of a folder, and the special tokens that it may name.
#include "models/checkpoint/chat_template_file.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "text/json.hpp"
#include "text/utf8.hpp"

#include <boost/json/array.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

namespace paceline::models {
namespace json = boost::json;

using text::ChatTemplate;
using text::sanitize_utf8;
using text::shown_path;

namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

ChatTemplate::Variables special_tokens(const json::object& config) {
  ChatTemplate::Variables out;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (auto token = special_token(config, name))
      out.emplace_back(name, std::move(*token));
  return out;
}

/// Returns the template that stands in a JSON file as a text, or in a list of named templates, of
/// which the default one is for conversations. None: there is no template.
Result<std::optional<std::string>> template_in(const std::string& path,
                                               const json::object& object) {
  const json::value* value = object.if_contains("chat_template");
  if (!value || value->is_null())
    return std::nullopt;
  if (value->is_array())
    for (const json::value& each : value->get_array()) {
      const json::object* named = each.if_object();
      const json::value* name = named ? named->if_contains("name") : nullptr;
      if (name && *name == "default")
        value = named->if_contains("template");
    }
  if (!value || !value->is_string())
    return fail(ErrorCode::corrupt,
                shown_path(path) + ": chat_template is neither a text nor a list with a 'default'",
                "mend the file");
  return std::string(value->get_string());
}

} // namespace

std::optional<std::string> special_token(const json::object& config, const char* name) {
  const json::value* token = config.if_contains(name);
  if (token && token->is_object())
    token = token->get_object().if_contains("content");
  if (!token || !token->is_string())
    return std::nullopt;
  return sanitize_utf8(std::string_view(token->get_string()));
}

Result<ChatTemplate> FolderSource::chat_template(const std::string& opening) const {
  ChatTemplate::Variables variables;
  std::optional<std::string> source;
  std::string path = file("tokenizer_config.json");
  if (exists(path)) {
    const auto config = read_json_object(path);
    if (!config)
      return tl::unexpected(config.error());
    variables = special_tokens(*config);
    auto found = template_in(path, *config);
    if (!found)
      return tl::unexpected(found.error());
    source = *std::move(found);
  }
  if (const std::string own = file("chat_template.jinja"); exists(own))
    return read_chat_template(own, std::move(variables));
  if (const std::string own = file("chat_template.json"); exists(own)) {
    auto found = read_json_object(own).and_then(
        [&](const json::object& object) { return template_in(own, object); });
    if (!found)
      return tl::unexpected(found.error());
    if (*found) {
      source = *std::move(found);
      path = own;
    }
  }
  return source ? parse_chat_template(path, *source, std::move(variables))
                : ChatTemplate::plain(opening);
}

Result<ChatTemplate> FolderSource::chat_template_from(const std::string& path) const {
  ChatTemplate::Variables variables;
  if (const std::string config = file("tokenizer_config.json"); exists(config)) {
    const auto object = read_json_object(config);
    if (!object)
      return tl::unexpected(object.error());
    variables = special_tokens(*object);
  }
  return read_chat_template(path, std::move(variables));
}

} // namespace paceline::models
