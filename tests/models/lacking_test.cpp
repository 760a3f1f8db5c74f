#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/sources.hpp"
#include "tests/models/support.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;

namespace {

/// What is said of a folder with these files when `file` is to be read.
Error error_of(const std::string& file, const std::vector<std::string>& names) {
  const test::TemporaryFolder folder;
  for (const std::string& name : names)
    folder.write(name, "{}");
  const auto error = [](const auto& result) {
    REQUIRE(!result);
    return result.error();
  };
  return file == "config.json"      ? error(FolderSource(folder.path()).config())
         : file == "tokenizer.json" ? error(FolderSource(folder.path()).tokenizer())
                                    : error(TensorFiles::open(folder.path()));
}

} // namespace

TEST_CASE("a folder of another format is called what it is") {
  struct Case {
    const char* file;
    std::vector<std::string> names;
    const char* message; ///< What the error's message and hint must hold.
    const char* hint;
  };
  const Case cases[] = {
      {"config.json", {"model-q4.gguf"}, "model-q4.gguf, which is GGUF", "made from"},
      {"config.json", {"adapter_config.json", "x.gguf"}, "an adapter", "merge"},
      {"config.json", {"params.json"}, "own format", "transformers"},
      {"tokenizer.json", {"config.json", "x.gguf"}, "x.gguf, which is GGUF", "made from"},
      {"tokenizer.json", {"tokenizer.model"}, "no tokenizer.json, but tokenizer.model", "Auto"},
      {"tokenizer.json", {"vocab.json", "merges.txt"}, "vocab.json", "AutoTokenizer"},
      {"model.safetensors", {"config.json", "x.gguf"}, "x.gguf, which is GGUF", "made from"},
      {"model.safetensors", {"pytorch_model.bin"}, "pytorch_model.bin, whose", "save_pretrained"},
      {"model.safetensors", {"pytorch_model-00001-of-2.bin", "a.gguf"}, "pickled", "AutoModel"},
      {"model.safetensors", {"consolidated.00.pth"}, "pickled", "version for transformers"},
      {"model.safetensors", {"consolidated.safetensors"}, "names", "version for transformers"},
      {"model.safetensors", {"adapter_model.safetensors"}, "an adapter", "merge"},
  };
  for (const Case& c : cases) {
    const Error error = error_of(c.file, c.names);
    CAPTURE(error.text());
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(error.message.find(std::string(" has no ") + c.file) != std::string::npos);
    CHECK(error.message.find(c.message) != std::string::npos);
    CHECK(error.hint.find(c.hint) != std::string::npos);
  }
}

TEST_CASE("a download that was not finished says how to finish it") {
  const test::TemporaryFolder cache;
  const std::string snapshot = "models--org--a-name/snapshots/abc/";
  cache.write("models--org--a-name/blobs/123.incomplete", "half");
  cache.write(snapshot + "config.json", "{}");
  const std::string folder = cache.path() + "/" + snapshot;
  const auto refused = TensorFiles::open(folder);
  REQUIRE(!refused);
  CHECK(
      refused.error().message.ends_with("has no model.safetensors: its download is not finished"));
  CHECK(refused.error().hint == "bring it: hf download org/a-name");
  cache.write(snapshot + "model.safetensors.index.json",
              R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  const auto lacking = TensorFiles::open(folder);
  REQUIRE(!lacking);
  CHECK(lacking.error().message.find("has no model-00001-of-00002.safetensors: ") !=
        std::string::npos);
  CHECK(lacking.error().hint == "bring it: hf download org/a-name");
  CHECK(FolderSource(folder).tokenizer().error().hint == "bring it: hf download org/a-name");
}

TEST_CASE("so does one into a folder, and a folder that is no download says nothing of any") {
  const test::TemporaryFolder folder;
  folder.write("config.json", "{}");
  CHECK(TensorFiles::open(folder.path()).error().hint.find("download") == std::string::npos);
  folder.write(".cache/huggingface/download/model.safetensors.x.incomplete", "half");
  CHECK(TensorFiles::open(folder.path()).error().hint.find("hf download ORG/NAME --local-dir") !=
        std::string::npos);
}

TEST_CASE("a folder that holds nothing in a file's place lacks the file") {
  for (const char* file : {"config.json", "tokenizer.json", "model.safetensors"}) {
    const Error error = error_of(file, {"README.md"});
    CHECK(error.code == ErrorCode::not_found);
    CHECK(error.message.find(file) != std::string::npos);
  }
}

TEST_CASE("what is read is read, whatever stands beside it") {
  const test::TemporaryFolder folder;
  test::link_all(test::demo("draft"), folder);
  for (const char* name : {"a.gguf", "pytorch_model.bin", "tokenizer.model", "params.json"})
    folder.write(name, "{}");
  CHECK(FolderSource(folder.path()).config());
  CHECK(FolderSource(folder.path()).tokenizer());
  CHECK(TensorFiles::open(folder.path()));
}

TEST_CASE("a pointer of git-lfs is not taken for the file") {
  const test::TemporaryFolder folder;
  test::link_all(test::demo("draft"), folder);
  for (const char* name : {"tokenizer.json", "model.safetensors"})
    folder.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  for (const Error& error : {FolderSource(folder.path()).tokenizer().error(),
                             TensorFiles::open(folder.path()).error()}) {
    CHECK(error.message.find("pointer of git-lfs") != std::string::npos);
    CHECK(error.hint.find("git lfs pull") != std::string::npos);
  }
}
