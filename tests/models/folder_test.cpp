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

TEST_CASE("another file's template is told the checkpoint's special tokens") {
  TemporaryFolder folder;
  folder.write("tokenizer_config.json", R"({"bos_token": "<b>", "chat_template": "own"})");
  folder.write("other.jinja", "{{ bos_token }}{{ messages[0].content }}");
  const FolderSource source(folder.path());
  CHECK(rendered(source.chat_template_from(folder.path() + "/other.jinja")) == "<b>Hello");
  CHECK(source.chat_template_from(folder.path() + "/none").error().code == ErrorCode::not_found);
}

TEST_CASE(
    "a template that cannot be compiled says its file and line, and what it renders does not") {
  TemporaryFolder folder;
  folder.write("chat_template.jinja", "{{ 1 }}\n{{ 1 | unheard_of }}");
  const auto broken = FolderSource(folder.path()).chat_template("");
  REQUIRE(!broken);
  CHECK(broken.error().message == folder.path() +
                                      "/chat_template.jinja: the chat template, line 2: "
                                      "there is no filter 'unheard_of'");
  folder.write("chat_template.jinja", "{{ raise_exception('no') }}");
  const auto refusing = FolderSource(folder.path()).chat_template("")->render(hello, true, {});
  REQUIRE(!refusing);
  CHECK(refusing.error().text().find(folder.path()) == std::string::npos);
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
