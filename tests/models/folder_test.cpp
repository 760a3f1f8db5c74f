#include "models/checkpoint/folder.hpp"
#include "tests/models/support.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using models::FolderSource;
using models::test::TemporaryFolder;

namespace {

const std::vector<ChatMessage> hello{{"user", "Hello"}};

std::string rendered(const Result<text::ChatTemplate>& chat, bool prompt = true) {
  REQUIRE_MESSAGE(chat, chat.error().text());
  const auto out = chat->render(hello, prompt, {});
  REQUIRE_MESSAGE(out, out.error().text());
  return *out;
}

} // namespace

TEST_CASE("a checkpoint's template is found where transformers looks for it") {
  TemporaryFolder folder;
  CHECK(rendered(FolderSource(folder.path()).chat_template("<s>")) ==
        "<s>User: Hello\n\nAssistant:");
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<b>"}, "eos_token": "</s>", "pad_token": null,
                   "chat_template": "{{ bos_token }}{{ pad_token }}{{ messages[0].content }}{{ eos_token }}"})");
  CHECK(rendered(FolderSource(folder.path()).chat_template("<s>")) == "<b>Hello</s>");
  folder.write("chat_template.json", R"({"chat_template": "json {{ bos_token }}"})");
  CHECK(rendered(FolderSource(folder.path()).chat_template("")) == "json <b>");
  folder.write("chat_template.jinja", "jinja {{ bos_token }}\n");
  CHECK(rendered(FolderSource(folder.path()).chat_template("")) == "jinja <b>");
}

TEST_CASE("of several templates the default one is for conversations") {
  TemporaryFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                     {"name": "default", "template": "mine"}]})");
  CHECK(rendered(FolderSource(folder.path()).chat_template("")) == "mine");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  CHECK(FolderSource(folder.path()).chat_template("").error().code == ErrorCode::corrupt);
}
