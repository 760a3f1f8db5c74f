// Gemma 4's assistants against the reference (tools/reference/gemma4_assistant.py), what they read
// of their target, and what is said of those that fit no target or are none.
#include "models/gemma4_assistant.hpp"
#include "models/head.hpp"
#include "models/transformer.hpp"
#include "tests/models/head_pair.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/models/weights_file.hpp"
#include "tests/support/says.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

/// The assistant that says all ids, and the one that says those of clusters.
constexpr std::size_t plain_case = 0;
constexpr std::size_t clusters_case = 1;

const json::object& assistant_case(std::size_t number) {
  return test::assistant_cases()[number].as_object();
}

const json::object& target_case(std::size_t number) {
  return test::reference_case(assistant_case(number).at("target").as_string());
}

Result<Head> assistant_in(const std::string& folder, const json::object& target,
                          gpu::DType dtype = gpu::DType::f32) {
  return test::load_reference(target, dtype).and_then([&](const auto& model) {
    return open_gemma4_assistant(folder, *config_of(*model), "target")
        .and_then([&](HeadSource&& head) {
          return load_head(std::move(head), model, test::device(), {});
        });
  });
}

Head load_case(std::size_t number, gpu::DType dtype = gpu::DType::f32) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, assistant_case(number), dtype);
  auto head = assistant_in(folder.path(), target_case(number), dtype);
  REQUIRE_MESSAGE(head, head.error().text());
  return std::move(*head);
}

std::vector<TokenId> prompt_of(std::size_t number) {
  return test::ids_of(target_case(number).at("prompt"));
}

/// Returns logits by the target's ids.
std::vector<float> by_id(const Head& head, const std::vector<float>& row) {
  if (head.says.empty())
    return row;
  std::vector<float> out;
  for (const TokenId column : head.says)
    out.push_back(row[std::size_t(column)]);
  return out;
}

/// Checks a row of logits, of which null is what an assistant does not say.
void check_row(const std::vector<float>& row, const json::value& expected) {
  const json::array& numbers = expected.as_array();
  REQUIRE(row.size() == numbers.size());
  double worst = 0;
  int wrongly_said = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool said = !std::isinf(row[i]);
    wrongly_said += said == numbers[i].is_null();
    if (said && !numbers[i].is_null())
      worst = std::max(worst, std::fabs(double(row[i]) - numbers[i].to_number<double>()));
  }
  CHECK(wrongly_said == 0);
  CHECK(worst < 1e-4);
}

void check_refused(const std::string& folder, const json::object& target, const std::string& word) {
  const auto head = assistant_in(folder, target);
  REQUIRE_FALSE(head);
  CHECK(paceline::testing::says(head.error(), word));
}

/// Checks that an assistant is refused with its config.json changed.
template <class Change>
void check_config_refused(std::size_t number, Change change, const std::string& word) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, assistant_case(number), gpu::DType::f32);
  json::object config = assistant_case(number).at("config").as_object();
  change(config, config["text_config"].as_object());
  folder.write("config.json", json::serialize(config));
  CAPTURE(word);
  check_refused(folder.path(), target_case(number), word);
}

/// Checks that an assistant is refused with its model.safetensors changed.
template <class Change>
void check_weights_refused(std::size_t number, Change change, const std::string& word) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, assistant_case(number), gpu::DType::f32);
  test::WeightsFile weights(folder.path());
  change(weights);
  folder.write("model.safetensors", weights.bytes());
  CAPTURE(word);
  check_refused(folder.path(), target_case(number), word);
}

} // namespace

TEST_CASE(
    "assistants draft what the reference drafts, first on the target's rows, then on theirs") {
  for (const std::size_t number : {plain_case, clusters_case}) {
    CAPTURE(number);
    const json::object& expected = assistant_case(number);
    const auto prompt = prompt_of(number);
    const int length = int(prompt.size());
    test::HeadPair pair(load_case(number));
    pair.read(prompt);
    test::Rows logits = pair.draft(prompt, 0, length, 1);
    for (const json::value& row : expected.at("rows").as_array())
      check_row(by_id(pair.head, logits[std::size_t(row.at("position").as_int64() - 1)]),
                row.at("logits"));
    std::vector<float> last = by_id(pair.head, logits.back());
    int position = length;
    for (const json::value& step : expected.at("drafted").as_array()) {
      const auto token = TokenId(std::max_element(last.begin(), last.end()) - last.begin());
      CHECK(token == step.at("token").as_int64());
      last = by_id(pair.head, pair.draft({&token, 1}, position, length - 1, 0).front());
      ++position;
      check_row(last, step.at("logits"));
    }
  }
}

TEST_CASE("an assistant's rows have the same bits in one pass, in chunks and page by page") {
  for (const std::size_t number : {plain_case, clusters_case})
    test::check_chunks([=] { return load_case(number, gpu::DType::bf16); }, prompt_of(number));
}

TEST_CASE("an assistant never sees keys of a token that the target rejected") {
  const auto prompt = prompt_of(plain_case);
  const int length = int(prompt.size());
  const auto drafts = [&](TokenId rejected) {
    test::HeadPair pair(load_case(plain_case));
    pair.read(prompt);
    pair.read({&rejected, 1}, length);
    pair.draft(prompt, 0, length, length - 1);
    test::Rows rows;
    for (int i = 0; i < 3; ++i) { // The target's own token in its place, and two drafted ones.
      const auto token = TokenId(7 + i);
      rows.push_back(pair.draft({&token, 1}, length + i, length, 0).front());
    }
    return rows;
  };
  CHECK(test::same_bits(drafts(5), drafts(90)));
}

TEST_CASE("what the target leaves for an assistant changes none of its own rows") {
  for (const std::size_t number : {plain_case, clusters_case}) {
    const auto prompt = prompt_of(number);
    const auto target = test::load_reference(target_case(number), gpu::DType::bf16).value();
    const test::Rows expected = test::logits_of(target, prompt);
    const Head head = load_case(number, gpu::DType::bf16);
    const int keys = number == plain_case ? 2 * (16 + 32) : 2 * (2 * 16 + 32);
    CHECK(head.target->kv_shape(16).features == 48 + keys);
    CHECK(head.model->kv_shape(16).features == 48);
    CHECK(head.model->kv_shape(16).page_bytes() == 16u * 2 * unsigned(keys));
    for (const int from : {0, 60, 71}) {
      test::HeadPair pair(load_case(number, gpu::DType::bf16));
      CHECK(test::same_bits(pair.read(prompt, 0, from), {expected.begin() + from, expected.end()}));
    }
  }
}

TEST_CASE("an assistant has the target's embedding, and says what it is") {
  const Head head = load_case(clusters_case);
  CHECK(head.model->info().architecture == "Gemma 4 assistant");
  CHECK(head.model->info().vocabulary == 160);
  CHECK(head.model->info().shared_bytes == 160u * 48 * 4);
  CHECK(head.says.size() == 160);
  CHECK(load_case(plain_case).says.empty());
}

TEST_CASE("assistants of other targets are refused, and it is said what differs") {
  using Object = json::object;
  check_config_refused(
      plain_case, [](Object& c, Object&) { c["backbone_hidden_size"] = 64; }, "hidden_size 64");
  check_config_refused(
      plain_case, [](Object&, Object& text) { text["vocab_size"] = 176; }, "vocab_size 176");
  check_config_refused(
      plain_case, [](Object&, Object& text) { text["global_head_dim"] = 16; },
      "1 heads of 16 dimensions");
  check_config_refused(
      plain_case, [](Object&, Object& text) { text["num_key_value_heads"] = 2; },
      "2 heads of 16 dimensions");
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, assistant_case(plain_case), gpu::DType::f32);
  check_refused(folder.path(), test::reference_case("Qwen 3"), "is a Qwen3ForCausalLM");
}

TEST_CASE("what is no assistant that is known is refused by name") {
  using Object = json::object;
  const auto refused = [](auto change, const std::string& word) {
    check_config_refused(clusters_case, change, word);
  };
  refused([](Object& c, Object&) { c["model_type"] = "gemma4_text"; }, "gemma4_text");
  refused([](Object& c, Object&) { c.erase("model_type"); }, "model_type");
  refused([](Object& c, Object&) { c["text_config"] = 3; }, "text_config");
  refused([](Object&, Object& text) { text["hidden_size_per_layer_input"] = 8; },
          "hidden_size_per_layer_input");
  refused([](Object&, Object& text) { text.erase("vocab_size_per_layer_input"); },
          "vocab_size_per_layer_input");
  refused([](Object&, Object& text) { text["enable_moe_block"] = true; }, "enable_moe_block");
  refused([](Object&, Object& text) { text["use_double_wide_mlp"] = true; }, "use_double_wide_mlp");
  refused([](Object&, Object& text) { text["num_kv_shared_layers"] = 2; }, "num_kv_shared_layers");
  refused([](Object& c, Object&) { c["num_centroids"] = 7; }, "num_centroids 7");
  refused([](Object& c, Object&) { c["centroid_intermediate_top_k"] = 6; }, "a row has 6");
  refused([](Object& c, Object&) { c["use_ordered_embeddings"] = "yes"; },
          "use_ordered_embeddings");
}

TEST_CASE("an assistant that lacks a tensor, or has others, is refused by name") {
  for (const char* name : {"pre_projection.weight", "post_projection.weight", "model.norm.weight",
                           "model.embed_tokens.weight", "masked_embedding.centroids.weight",
                           "masked_embedding.token_ordering",
                           "model.layers.1.self_attn.q_norm.weight", "model.layers.0.layer_scalar"})
    check_weights_refused(
        clusters_case, [&](test::WeightsFile& w) { w.remove(name); }, name);
  check_weights_refused(
      clusters_case, [](test::WeightsFile& w) { w.put("odd.weight", "F32", {1}, "1234"); }, "odd");
  const char* const order = "masked_embedding.token_ordering";
  for (const int change : {-1, 1, 100})
    check_weights_refused(
        clusters_case, [&](test::WeightsFile& w) { w.at(order)[change < 0 ? 7 : 0] += change; },
        order);
  check_weights_refused(
      clusters_case,
      [&](test::WeightsFile& w) { w.put(order, "I32", {160}, std::string(640, '\0')); }, "I32");
}

TEST_CASE("an output head under its own name is the assistant's") {
  const auto prompt = prompt_of(plain_case);
  const auto drafts = [&](bool renamed) {
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, assistant_case(plain_case), gpu::DType::f32);
    test::WeightsFile weights(folder.path());
    if (renamed) {
      weights.rename("model.embed_tokens.weight", "lm_head.weight");
      weights.put("model.embed_tokens.weight", "F32", {160, 32}, std::string(160 * 32 * 4, '\0'));
    }
    folder.write("model.safetensors", weights.bytes());
    auto head = assistant_in(folder.path(), target_case(plain_case));
    REQUIRE_MESSAGE(head, head.error().text());
    test::HeadPair pair(std::move(*head));
    pair.read(prompt);
    return pair.draft(prompt, 0, int(prompt.size()), 60);
  };
  CHECK(test::same_bits(drafts(true), drafts(false)));
}
