// Blocks that checkpoints bring to draft for them, against the reference (tools/reference/mtp.py),
// and what is said of those that bring none.
#include "models/mtp.hpp"
#include "models/sources.hpp"
#include "tests/models/gguf_checkpoint.hpp"
#include "tests/models/head_pair.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>
#include <vector>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

Result<Head> head_in(const std::string& folder) {
  return open_checkpoint(folder, "target").and_then([](const auto& source) {
    return load_model(*source, {test::device()}, {}).and_then([&](const Stages& target) {
      return load_head(mtp_draft, *source, target.front(), test::device(), {});
    });
  });
}

json::object in_one_file(std::string_view name) {
  json::object entry = test::case_with_mtp(name);
  entry["shards"] = 1;
  return entry;
}

Head head_of(std::string_view name, gpu::DType dtype = gpu::DType::f32) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::case_with_mtp(name), dtype);
  auto head = head_in(folder.path());
  REQUIRE_MESSAGE(head, head.error().text());
  return std::move(*head);
}

std::vector<TokenId> prompt_of(std::string_view name) {
  return test::ids_of(test::reference_case(name).at("prompt"));
}

/// Loads the head with its model.safetensors changed.
template <class Change>
Result<Head> changed(std::string_view name, const Change& change) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, in_one_file(name), gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  change(weights);
  folder.write("model.safetensors", weights.bytes());
  return head_in(folder.path());
}

template <class Change>
void check_refused(std::string_view name, const Change& change, const std::string& word) {
  const auto head = changed(name, change);
  REQUIRE_FALSE(head);
  CHECK(paceline::testing::says(head.error(), word));
}

} // namespace

TEST_CASE("a block drafts what the reference drafts, first on the target's rows, then on its own") {
  for (const json::value& expected : test::mtp_cases()) {
    const std::string name(expected.at("target").as_string());
    CAPTURE(name);
    const auto prompt = prompt_of(name);
    const int length = int(prompt.size());
    test::HeadPair pair(head_of(name));
    CHECK(pair.head.says.empty());
    pair.read(prompt);
    test::Rows logits = pair.draft(prompt, 0, length, 1);
    for (const json::value& row : expected.at("rows").as_array())
      CHECK(test::error_of(logits[std::size_t(row.at("position").as_int64() - 1)],
                           row.at("logits")) < 1e-4);
    std::vector<float> last = logits.back();
    int position = length;
    for (const json::value& step : expected.at("drafted").as_array()) {
      const auto token = TokenId(std::max_element(last.begin(), last.end()) - last.begin());
      CHECK(token == step.at("token").as_int64());
      last = pair.draft({&token, 1}, position, length - 1, 0).front();
      ++position;
      CHECK(test::error_of(last, step.at("logits")) < 1e-4);
    }
  }
}

TEST_CASE("a block's rows have the same bits in one pass, in chunks and page by page") {
  for (const char* name : {"Qwen 3.5", "GLM-4.5"})
    test::check_chunks([name] { return head_of(name, gpu::DType::bf16); }, prompt_of(name));
}

TEST_CASE("what the target leaves of its last rows changes none of them, whichever are asked for") {
  for (const char* name : {"Qwen 3.5", "Qwen 3.5 that ends with a recurrent layer", "GLM-4.5"}) {
    const auto prompt = prompt_of(name);
    const auto plain = test::load_reference(test::reference_case(name), gpu::DType::bf16).value();
    const test::Rows expected = test::logits_of(plain, prompt);
    const Head head = head_of(name, gpu::DType::bf16);
    CHECK(head.target->kv_shape(16).features == 48);
    CHECK(head.model->kv_shape(16).features == 48);
    CHECK(head.model->kv_shape(16).state_bytes == 0);
    for (const int from : {0, 60, 71}) {
      test::HeadPair pair(head_of(name, gpu::DType::bf16));
      CHECK(test::same_bits(pair.read(prompt, 0, from), {expected.begin() + from, expected.end()}));
    }
  }
}

TEST_CASE("a block has the target's tables, and its own where they differ") {
  const auto tables = [](const Result<Head>& head) {
    REQUIRE_MESSAGE(head, head.error().text());
    return int(head->model->info().shared_bytes / (160u * 48 * 4));
  };
  const auto same = [](test::WeightsFile&) {};
  CHECK(tables(changed("Qwen 3.5", same)) == 2);
  CHECK(tables(changed("Qwen 3.5 that ends with a recurrent layer", same)) == 1); // It is tied.
  CHECK(tables(changed("GLM-4.5", same)) == 1);
  CHECK(tables(changed("GLM-4.5", [](test::WeightsFile& w) {
          const std::string copy(w.tensor("lm_head.weight"));
          w.put("model.layers.3.shared_head.head.weight", "F32", {160, 48}, copy);
        })) == 2);
  const auto own = changed("Qwen 3.5", [](test::WeightsFile& w) {
    const std::string zeros(160u * 48 * 4, '\0');
    w.put("mtp.embed_tokens.weight", "F32", {160, 48}, zeros);
  });
  CHECK(tables(own) == 1);
  CHECK(own->model->info().architecture == "MTP head");
}

TEST_CASE("a model that also sees brings its block beside the part for text") {
  json::object entry = in_one_file("Qwen 3.5");
  const auto prompt = prompt_of("Qwen 3.5");
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  for (const std::string& tensor : weights.names())
    if (tensor.starts_with("model."))
      weights.rename(tensor, "model.language_model." + tensor.substr(6));
  folder.write("model.safetensors", weights.bytes());
  json::object text = entry.at("config").as_object();
  text.erase("architectures");
  folder.write("config.json",
               json::serialize(json::object{{"model_type", "qwen3_5"},
                                            {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                                            {"text_config", text}}));
  const auto drafts = [&](Head head) {
    test::HeadPair pair(std::move(head));
    pair.read(prompt);
    return pair.draft(prompt, 0, int(prompt.size()), 1);
  };
  auto head = head_in(folder.path());
  REQUIRE_MESSAGE(head, head.error().text());
  CHECK(test::same_bits(drafts(std::move(*head)), drafts(head_of("Qwen 3.5"))));
  CHECK(brings_mtp(folder.path()));
}

TEST_CASE(
    "a block in a GGUF drafts what it drafts in a folder, with the file's tables or its own") {
  for (const auto& [name, architecture] :
       {std::pair("Qwen 3.5 that ends with a recurrent layer", "qwen35"),
        {"Qwen 3.5 MoE", "qwen35moe"},
        {"Qwen 3 Next", "qwen3next"},
        {"GLM-4.5", "glm4moe"}}) {
    CAPTURE(name);
    const auto prompt = prompt_of(name);
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, in_one_file(name), gpu::DType::bf16);
    testing::GgufWriter file = test::to_gguf(folder.path(), architecture);
    const auto drafts = [&](const std::string& location) {
      auto head = head_in(location);
      REQUIRE_MESSAGE(head, head.error().text());
      test::HeadPair pair(std::move(*head));
      pair.read(prompt);
      return pair.draft(prompt, 0, int(prompt.size()), 1);
    };
    const test::Rows expected = drafts(folder.path());
    const auto written = [&] { return folder.write("m/m.gguf", file.bytes()); };
    CHECK(brings_mtp(written()));
    CHECK(test::same_bits(drafts(written()), expected));
    const json::object config = test::reference_case(name).at("config").as_object();
    const std::string block = fmt::format("blk.{}.", config.at("num_hidden_layers").as_int64());
    file.copy(block + "nextn.embed_tokens.weight", "token_embd.weight");
    const Head copied = head_in(written()).value();
    CHECK(copied.model->info().shared_bytes > 0);
    CHECK(test::same_bits(drafts(written()), expected));
    file.tensor(block + "nextn.embed_tokens.weight", {160, 48}, std::vector<float>(160 * 48, 0.5f));
    CHECK_FALSE(test::same_bits(drafts(written()), expected));
    file.tensor(block + "odd.weight", {1}, {1});
    const auto odd = head_in(written());
    REQUIRE_FALSE(odd);
    CHECK(paceline::testing::says(odd.error(), "odd"));
    for (const std::string& tensor : file.names()) // Some programs leave such blocks out.
      if (tensor.starts_with(block))
        file.drop(tensor);
    CHECK_FALSE(brings_mtp(written()));
    CHECK(head_in(written()).error().code == ErrorCode::not_found);
  }
}

TEST_CASE("a checkpoint without such a block, or with half of one, is refused by name") {
  const auto remove_all = [](test::WeightsFile& w) {
    for (const std::string& name : w.names())
      if (name.starts_with("mtp."))
        w.remove(name);
  };
  check_refused("Qwen 3.5", remove_all, "multi-token prediction");
  const test::TemporaryFolder plain;
  test::write_checkpoint(plain, test::reference_case("Qwen 3"), gpu::DType::f32);
  CHECK_FALSE(brings_mtp(plain.path()));
  CHECK(head_in(plain.path()).error().code == ErrorCode::not_found);
  CHECK_FALSE(brings_mtp("/nowhere/at/all"));
  for (const char* name : {"mtp.fc.weight", "mtp.norm.weight", "mtp.pre_fc_norm_hidden.weight",
                           "mtp.pre_fc_norm_embedding.weight", "mtp.layers.0.mlp.up_proj.weight"})
    check_refused(
        "Qwen 3.5", [&](test::WeightsFile& w) { w.remove(name); }, name);
  check_refused(
      "Qwen 3.5", [](test::WeightsFile& w) { w.put("mtp.odd", "F32", {1}, "1234"); }, "mtp.odd");
}

TEST_CASE("of several blocks the first drafts") {
  json::object entry = in_one_file("Qwen 3.5");
  entry["config"].as_object()["mtp_num_hidden_layers"] = 2;
  entry["tensors"].as_array().push_back(
      {"mtp.layers.1.input_layernorm.weight", json::array{48}, 0.1, 0.0});
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  const auto head = head_in(folder.path());
  REQUIRE_MESSAGE(head, head.error().text());
}
