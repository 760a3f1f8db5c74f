// The parts of paceline pull that need no hub.
#include "apps/terminal/pull/hub.hpp"
#include "apps/terminal/pull/selection.hpp"
#include "apps/terminal/pull/usual_draft.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::apps::pull;

namespace {

std::vector<HubFile> files(std::initializer_list<const char*> paths) {
  std::vector<HubFile> out;
  for (const char* path : paths)
    out.push_back({.path = path, .size = 10 + out.size()});
  return out;
}

std::string selected(const std::string& name, const std::vector<HubFile>& from) {
  const auto selection = select_files(*models::parse_model_name(name), from);
  if (!selection)
    return selection.error().text();
  std::string out = selection->name.text() + ":";
  for (const HubFile& file : selection->files)
    out += " " + file.path;
  return out;
}

models::ModelConfig config(const std::string& architecture, int vocabulary, int layers,
                           int hidden) {
  models::ModelConfig out;
  out.architecture = architecture;
  out.vocabulary = vocabulary;
  out.layers = layers;
  out.hidden = hidden;
  return out;
}

} // namespace

TEST_CASE("of a checkpoint what is read is fetched, the smallest first") {
  auto from = files({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                     "model.safetensors.index.json", "config.json", "tokenizer.json", "vocab.json",
                     "chat_template.jinja", "LICENSE", "consolidated.safetensors",
                     "adapter_model.safetensors", "pytorch_model.bin", "onnx/model.safetensors",
                     "name-Q8_0.gguf"});
  from.front().size = 1000;
  CHECK(selected("org/name", from) ==
        "org/name: model-00002-of-00002.safetensors model.safetensors.index.json config.json "
        "tokenizer.json chat_template.jinja LICENSE model-00001-of-00002.safetensors");
  CHECK(selected("org/name:Q8_0", from) == "org/name:Q8_0: name-Q8_0.gguf");
}

TEST_CASE("without a checkpoint the usual GGUF file is meant, and without either it is said") {
  CHECK(selected("org/name", files({"n-Q8_0.gguf", "n-Q4_K_M.gguf", "n-imatrix.gguf"})) ==
        "org/name:Q4_K_M: n-Q4_K_M.gguf");
  CHECK(selected("org/name", files({"name.gguf", "config.json"})) == "org/name:name: name.gguf");
  CHECK(selected("org/name:UD-Q4_K_M", files({"n-UD-Q4_K_M.gguf", "n-Q4_K_M.gguf"})) ==
        "org/name:n-UD-Q4_K_M: n-UD-Q4_K_M.gguf");
  CHECK(selected("org/name", files({"config.json", "pytorch_model.bin"})).find("pickled") !=
        std::string::npos);
  CHECK(selected("org/name:Q8_0", files({"config.json", "model.safetensors"}))
            .ends_with("paceline pull org/name"));
}

TEST_CASE("paths that could leave a folder are not safe") {
  for (const char* path : {"a", "a/b.c", "..a", "a..b/...", "UPPER-1_2.gguf", "\xc3\xa4/x"})
    CHECK_MESSAGE(is_safe_path(path), path);
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "a\\b", "a\nb", "a\x7f"})
    CHECK_MESSAGE(!is_safe_path(path), path);
  CHECK(!is_safe_path(std::string(201, 'a')));
}

TEST_CASE("the next page is what the header says is next") {
  CHECK(next_page(R"(<http://a/b?c=1>; rel="next")") == "http://a/b?c=1");
  CHECK(next_page(R"(<x>; rel="prev", <y>; rel="next")") == "y");
  for (const char* link : {"", R"(<x>; rel="prev")", R"(rel="next")"})
    CHECK(next_page(link).empty());
}

TEST_CASE("a family's usual draft is proposed to targets of its vocabulary that gain by one") {
  const auto draft = [](const models::ModelConfig& target, const std::string& name = "org/name") {
    return usual_draft(target, name).value_or("none");
  };
  CHECK(draft(config("Qwen3ForCausalLM", 151'936, 36, 4096)) == "Qwen/Qwen3-0.6B");
  CHECK(draft(config("Qwen3ForCausalLM", 151'936, 28, 1024)) == "none"); // itself
  CHECK(draft(config("LlamaForCausalLM", 128'256, 32, 4096)) == "meta-llama/Llama-3.2-1B-Instruct");
  CHECK(draft(config("LlamaForCausalLM", 32'000, 32, 4096)) == "none"); // It may be Mistral's.
  CHECK(draft(config("LlamaForCausalLM", 32'000, 32, 4096), "meta-llama/Llama-2-7b-chat-hf") ==
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0");
  CHECK(draft(config("LlamaForCausalLM", 100, 32, 4096)) == "none");
  auto own = config("Qwen3ForCausalLM", 151'936, 36, 4096);
  own.draft_blocks = 1;
  CHECK(draft(own) == "none");
}
