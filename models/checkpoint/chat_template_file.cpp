#include "models/checkpoint/chat_template_file.hpp"

#include "models/checkpoint/files.hpp"
#include "text/json.hpp"
#include "text/limits.hpp"

namespace paceline::models {

using text::ChatTemplate;
using text::shown_path;

Result<ChatTemplate> read_chat_template(const std::string& path,
                                        ChatTemplate::Variables variables) {
  return MappedFile::open(path).and_then([&](const MappedFile& file) -> Result<ChatTemplate> {
    if (file.bytes().size() > text::limits::template_bytes_max)
      return fail(ErrorCode::corrupt, shown_path(path) + " is too long for a chat template",
                  "mend the file");
    return parse_chat_template(path, std::string(file.text()), std::move(variables));
  });
}

Result<ChatTemplate> parse_chat_template(const std::string& path, const std::string& source,
                                         ChatTemplate::Variables variables) {
  return ChatTemplate::parse("the chat template", source, std::move(variables))
      .map_error([&](Error error) {
        error.message = shown_path(path) + ": " + error.message;
        return error;
      });
}

} // namespace paceline::models
