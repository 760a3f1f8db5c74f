// GGUF files as strangers make them: what is read of them, and what is refused.
#include "models/checkpoint/gguf.hpp"

#include "models/checkpoint/gguf_files.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "models/identity.hpp"
#include "models/quantize.hpp"
#include "models/sources.hpp"
#include "tests/models/gguf_checkpoint.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/support/says.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <limits>

using namespace paceline;
using namespace paceline::models;
using paceline::testing::says;
using testing::GgufWriter;
namespace json = boost::json;

namespace {

/// Tensors a, [2, 3], and b, [4].
GgufWriter two_in_gguf() {
  GgufWriter out;
  out.put("general.architecture", std::string("llama"))
      .tensor("a", {2, 3}, {1, 2, 3, 4, 5, 6})
      .tensor("b", {4}, {7, 8, 9, 10});
  return out;
}

Result<Gguf> parsed(const std::string& file) {
  static std::string kept; // What it gives points into the file.
  kept = file;
  return parse_gguf("x.gguf", std::as_bytes(std::span(kept)));
}

Error refused(const std::string& file) {
  const auto read = parsed(file);
  REQUIRE_MESSAGE(!read, "it was read");
  CHECK(read.error().text().find("x.gguf: ") == 0);
  CHECK_FALSE(read.error().hint.empty());
  return read.error();
}

/// The reference's llama as a GGUF, with a vocabulary of bytes.
GgufWriter small_llama(const test::TemporaryFolder& folder) {
  json::object entry = test::reference_case("SmolLM 2");
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  GgufWriter out = test::to_gguf(folder.path(), "llama");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::remove(folder.file(name));
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>", "<|im_end|>"};
  std::vector<std::int32_t> types{2, 3, 3, 3};
  for (char c = 'a'; c <= 'z'; ++c) {
    tokens.emplace_back(1, c);
    types.push_back(1);
  }
  out.put("tokenizer.ggml.model", std::string("llama"))
      .put("tokenizer.ggml.tokens", tokens)
      .put("tokenizer.ggml.scores", std::vector<float>(tokens.size()))
      .put("tokenizer.ggml.token_type", types)
      .put("tokenizer.ggml.add_space_prefix", false);
  return out;
}

template <class T>
Error error_of(const Result<T>& result) {
  REQUIRE(!result);
  return result.error();
}

} // namespace

TEST_CASE("a file's keys and tensors are what was written") {
  GgufWriter file = two_in_gguf();
  file.put("n", std::uint32_t(7))
      .put("x", 0.5f)
      .put("yes", true)
      .put("list", std::vector<std::int32_t>{-1, 2})
      .put("texts", std::vector<std::string>{"", "word"})
      .put("big", std::uint64_t(1) << 63);
  for (const std::uint32_t version : {2u, 3u}) {
    file.version = version;
    const auto read = parsed(file.bytes());
    REQUIRE_MESSAGE(read, read.error().text());
    const auto at = [&](const char* key) { return read->metadata.find(key)->second; };
    CHECK(at("n").integer() == 7);
    CHECK(at("x").number() == 0.5);
    CHECK(at("yes").boolean() == true);
    CHECK(at("list").integers() == std::vector<std::int64_t>{-1, 2});
    CHECK(at("texts").strings() == std::vector<std::string_view>{"", "word"});
    CHECK(at("general.architecture").string() == "llama");
    CHECK_FALSE(at("big").integer());
    CHECK_FALSE(at("x").integer());
    CHECK_FALSE(at("texts").numbers());
    REQUIRE(read->tensors.size() == 2);
    CHECK(read->tensors[0].name == "a");
    CHECK(read->tensors[0].shape == std::vector<std::int64_t>{2, 3});
    CHECK(read->tensors[1].bytes.size() == 16);
  }
}

TEST_CASE("every cut of a file is refused, and no byte turned over reaches beyond it") {
  GgufWriter file = two_in_gguf();
  file.put("texts", std::vector<std::string>{"a", "b"});
  const std::string whole = file.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size)
    refused(whole.substr(0, size));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string other = whole;
      other[at] = char(other[at] ^ flip);
      if (const auto read = parsed(other))
        for (const GgufTensor& tensor : read->tensors)
          CHECK(tensor.bytes.size() <= other.size());
    }
}

TEST_CASE("counts, lengths and shapes of 2^63 are refused by name") {
  const auto huge = std::uint64_t(1) << 63;
  const std::string whole = two_in_gguf().bytes();
  for (const std::size_t at : {8u, 16u}) {
    std::string counts = whole;
    counts.replace(at, 8, GgufWriter::number(huge));
    CHECK(says(refused(counts), "9223372036854775808"));
  }
  GgufWriter file = two_in_gguf();
  file.set("key", GgufWriter::number(std::uint32_t(8)) + GgufWriter::number(huge));
  CHECK(says(refused(file.bytes()), "a text of 9223372036854775808 bytes begins"));
  file = two_in_gguf();
  file.set("key", GgufWriter::number(std::uint32_t(9)) + GgufWriter::number(std::uint32_t(4)) +
                      GgufWriter::number(huge));
  CHECK(says(refused(file.bytes()), "key key is a list of 9223372036854775808 elements"));
  for (const std::uint64_t size : {huge, std::uint64_t(0), std::uint64_t(1) << 31}) {
    file = two_in_gguf();
    file.tensor("c", 0, {size, 2}, "");
    CHECK(says(refused(file.bytes()), "tensor c has a dimension of"));
  }
  file = two_in_gguf();
  file.tensor("c", 0, std::vector<std::uint64_t>(4, 0x7FFFFFFF), "");
  CHECK(says(refused(file.bytes()), "takes no number of bytes"));
}

TEST_CASE("what contradicts itself is refused, with the key or the tensor") {
  const auto with = [](const auto& change) {
    GgufWriter file = two_in_gguf();
    change(file);
    return refused(file.bytes());
  };
  CHECK(says(with([](auto& f) { f.version = 4; }), "version 4"));
  CHECK(says(with([](auto& f) { f.misplace("b", 0); }), "overlaps another"));
  CHECK(says(with([](auto& f) { f.misplace("b", 33); }), "tensor b lies at 33"));
  CHECK(says(with([](auto& f) { f.misplace("b", std::uint64_t(1) << 40); }), "tensor b needs"));
  CHECK(says(with([](auto& f) { f.set("k", GgufWriter::number(std::uint32_t(13))); }),
             "key k is of type 13"));
  CHECK(says(with([](auto& f) {
               f.tensor("c", 2, {2, 33}, std::string(36, 0));
             }),
             "tensor c is [2, 33] of q4_0"));
  CHECK(says(with([](auto& f) { f.misplace("b", std::uint64_t(1) << 63); }),
             "tensor b needs 16 bytes at 9223372036854775808"));
  CHECK(says(with([](auto& f) { f.misplace("b", ~std::uint64_t(31)); }), "tensor b needs"));
  CHECK(says(with([](auto& f) { f.misplace("b", 64); }), "tensor b needs 16 bytes at 64"));
  CHECK(says(with([](auto& f) { f.tensor("c", 0, {1, 1, 1, 1, 1}, "four"); }), "5 dimensions"));
  for (const std::uint64_t alignment : {0ull, 3ull, 24ull, 1ull << 32, 1ull << 63})
    CHECK(says(with([&](auto& f) { f.put("general.alignment", alignment); }),
               "key general.alignment is no power of two"));
  CHECK(says(with([](auto& f) { f.put("general.alignment", std::string("32")); }),
             "key general.alignment is no power of two"));
  CHECK(says(with([](auto& f) {
               f.repeat("general.architecture",
                        GgufWriter::number(std::uint32_t(4)) + GgufWriter::number(7u));
             }),
             "key general.architecture stands there twice"));
  CHECK(says(with([](auto& f) { f.set("", GgufWriter::number(std::uint32_t(7)) + "x"); }),
             "name of a key has 0 bytes"));
  CHECK(says(refused("GGML" + std::string(40, 0)), "is no GGUF file"));
}

TEST_CASE("a list of lists, and a text in a list that is longer than the file, are refused") {
  const auto with = [](std::uint32_t element, const std::string& bytes) {
    GgufWriter file = two_in_gguf();
    file.set("k", GgufWriter::number(std::uint32_t(9)) + GgufWriter::number(element) +
                      GgufWriter::number(std::uint64_t(1)) + bytes);
    return refused(file.bytes());
  };
  CHECK(says(with(9, std::string(12, 0)), "key k is a list of type 9"));
  CHECK(says(with(8, GgufWriter::number(std::uint64_t(1) << 20)),
             "in the middle of key k: a text of 1048576 bytes"));
  CHECK(says(with(8, GgufWriter::number(~std::uint64_t(0))), "in the middle of key k"));
  CHECK(says(with(99, ""), "key k is a list of type 99"));
}

TEST_CASE("two tensors of one name are refused") {
  std::string file = two_in_gguf().bytes();
  const std::string of_b = GgufWriter::number(std::uint64_t(1)) + "b";
  file.replace(file.find(of_b), of_b.size(), GgufWriter::number(std::uint64_t(1)) + "a");
  CHECK(says(refused(file), "tensor a stands there twice"));
}

TEST_CASE("a file is known by its name or by its first bytes") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("sha256-12ab", small_llama(folder).bytes());
  CHECK(resolve_model_path(file, "target") == file);
  CHECK(test::load(file, test::device(), {}));
  CHECK(says(error_of(resolve_model_path(folder.write("a.bin", "GGU"), "target")), "a.bin"));
  CHECK(says(error_of(test::load(folder.write("a.gguf", ""), test::device(), {})), "is empty"));
}

TEST_CASE("a type of tensor that is not read is refused by its name") {
  const std::pair<std::uint32_t, const char*> types[] = {
      {16, "IQ2_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"}, {34, "TQ1_0"}, {99, "type 99"}};
  for (const auto& [type, name] : types) {
    GgufWriter file = two_in_gguf();
    file.tensor("blk.0.ffn_up.weight", type, {1, 256}, std::string(256, 0));
    const Error error = refused(file.bytes());
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(says(error, "tensor blk.0.ffn_up.weight is " + std::string(name)));
    CHECK(says(error, "Q4_0"));
  }
}

TEST_CASE("a file, its parts, and a folder that holds it alone are one model") {
  const test::TemporaryFolder folder;
  const GgufWriter whole = small_llama(folder);
  const std::string file = folder.write("one/m.gguf", whole.bytes());
  const auto tokens = test::some_tokens(20, 160);
  const auto logits = [&](const std::string& location) {
    const auto model = test::load(location, test::device(), {});
    REQUIRE_MESSAGE(model, model.error().text());
    return test::logits_of(*model, tokens);
  };
  const auto expected = logits(file);
  CHECK(logits(folder.file("one")) == expected);
  GgufWriter parts[2] = {whole, {}};
  GgufWriter second = whole;
  bool odd = false;
  for (const std::string& name : whole.names())
    (odd = !odd) ? second.drop(name) : parts[0].drop(name);
  second.remove("general.architecture");
  parts[1] = second;
  for (std::uint32_t i = 0; i < 2; ++i)
    parts[i]
        .put("split.no", i)
        .put("split.count", std::uint32_t(2))
        .put("split.tensors.count", std::int32_t(whole.names().size()));
  const std::string first = folder.write("two/m-00001-of-00002.gguf", parts[0].bytes());
  CHECK(says(error_of(test::load(first, test::device(), {})), "m-00002-of-00002.gguf"));
  const std::string last = folder.write("two/m-00002-of-00002.gguf", parts[1].bytes());
  CHECK(logits(first) == expected);
  CHECK(logits(folder.file("two")) == expected);
  CHECK(says(error_of(test::load(last, test::device(), {})), "give " + first));
  folder.write("two/m-00002-of-00002.gguf", parts[0].bytes());
  CHECK(says(error_of(test::load(first, test::device(), {})), "part 2 of 2"));
  folder.write("one/mmproj-m.gguf", whole.bytes()); // projects pictures, and is no model
  CHECK(logits(folder.file("one")) == expected);
  folder.write("one/other.gguf", whole.bytes());
  const Error several = error_of(test::load(folder.file("one"), test::device(), {}));
  CHECK(says(several, "holds 2 GGUF models"));
  CHECK(says(several, "m.gguf"));
}

TEST_CASE("nodes know a GGUF by its name, its header and its weights, wherever it lies") {
  const test::TemporaryFolder folder;
  GgufWriter file = small_llama(folder);
  const std::string path = folder.write("a/m.gguf", file.bytes());
  folder.write("b/m.gguf", file.bytes());
  const auto identity = checkpoint_identity(path);
  REQUIRE_MESSAGE(identity, identity.error().text());
  CHECK(checkpoint_identity(folder.file("a")) == *identity);
  CHECK(checkpoint_identity(folder.file("b")) == *identity);
  CHECK(checkpoint_files(path) == std::vector{path});
  CHECK(is_checkpoint_file("m-00001-of-00002.gguf"));
  CHECK_FALSE(is_checkpoint_file("../m.gguf"));
  const auto weights = sample_weights(path);
  REQUIRE(weights);
  file.tensor("token_embd.weight", {160, 48},
              std::vector<float>(160 * 48, 2)); // More than a stride.
  folder.write("b/m.gguf", file.bytes());
  CHECK(checkpoint_identity(folder.file("b")) == *identity);
  CHECK(sample_weights(folder.file("b")) != *weights);
  file.put("general.name", std::string("other"));
  folder.write("b/m.gguf", file.bytes());
  CHECK(checkpoint_identity(folder.file("b")) != *identity);
}

TEST_CASE("a configuration that is not known is refused with the key that says it") {
  const test::TemporaryFolder folder;
  const auto with = [&](const auto& change) {
    GgufWriter file = small_llama(folder);
    change(file);
    return error_of(GgufSource(folder.write("m.gguf", file.bytes())).config());
  };
  const Error other = with([](auto& f) { f.put("general.architecture", std::string("mamba")); });
  CHECK(says(other, "architecture mamba is not known"));
  CHECK(says(
      other,
      "dots1, gemma2, gemma3, gemma4, glm4moe, gpt-oss, gpt2, gptneox, granite, granitehybrid, "
      "granitemoe, lfm2, lfm2moe, llama, mistral3, nemotron_h, nemotron_h_moe, olmo2, olmoe, phi3, "
      "qwen2, qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, smollm3"));
  CHECK(says(with([](auto& f) { f.remove("llama.block_count"); }), "llama.block_count"));
  CHECK(says(with([](auto& f) { f.put("llama.embedding_length", 0.5f); }),
             "llama.embedding_length is not an integer"));
  CHECK(says(with([](auto& f) { f.put("llama.expert_count", std::uint32_t(8)); }),
             "llama.expert_used_count is missing"));
  CHECK(says(with([](auto& f) { f.put("llama.expert_gating_func", std::uint32_t(2)); }),
             "llama.expert_gating_func is not 1"));
  CHECK(says(with([](auto& f) { f.put("llama.nextn_predict_layers", std::uint32_t(9)); }),
             "llama.block_count is not an integer"));
  CHECK(says(with([](auto& f) { f.put("llama.expert_weights_scale", 2.f); }),
             "llama.expert_weights_scale is not known"));
  CHECK(says(with([](auto& f) { f.put("llama.logit_scale", 2.f); }), "llama.logit_scale"));
  CHECK(says(with([](auto& f) { f.put("llama.attention.value_length", std::uint32_t(6)); }),
             "llama.attention.value_length"));
  CHECK(says(with([](auto& f) {
               f.tensor("rope_freqs.weight", {5}, {1, 1, 1, 1, 1});
             }),
             "rope_freqs.weight"));
  CHECK(says(with([](auto& f) {
               f.put("llama.rope.scaling.type", std::string("longrope"));
               f.put("llama.rope.scaling.factor", 4.f);
             }),
             "rope_factors_short.weight is not a list of"));
  CHECK(says(with([](auto& f) { f.put("llama.rope.dimension_count", std::uint32_t(6)); }),
             "llama.rope.dimension_count is not known"));
  for (const double huge : {1e300, -1e300, std::numeric_limits<double>::quiet_NaN()})
    CHECK(says(with([&](auto& f) { f.put("llama.attention.head_count", huge); }),
               "llama.attention.head_count is not an integer"));
}

TEST_CASE("recurrent layers that contradict themselves are refused with the key that says it") {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::reference_case("Qwen 3.5 that ends with a recurrent layer"),
                         gpu::DType::f32);
  const auto refused = [&](const std::string& key, auto value, const std::string& more = "") {
    GgufWriter file = test::to_gguf(folder.path(), "qwen35");
    file.put("qwen35." + key, value);
    return says(error_of(GgufSource(folder.write("m/m.gguf", file.bytes())).config()),
                "qwen35." + key + more);
  };
  for (const std::int64_t inner : {std::int64_t(-96), std::int64_t(0), std::int64_t(3) << 60})
    CHECK(refused("ssm.inner_size", inner, " over qwen35.ssm.time_step_rank is not an integer"));
  CHECK(refused("ssm.inner_size", std::uint32_t(95)));
  CHECK(refused("ssm.inner_size", 1e300));
  CHECK(refused("ssm.state_size", std::uint32_t(1) << 20));
  CHECK(refused("ssm.time_step_rank", std::uint32_t(3)));
  CHECK(refused("ssm.time_step_rank", std::uint32_t(0)));
  CHECK(refused("ssm.group_count", std::uint32_t(0)));
  CHECK(refused("ssm.conv_kernel", std::uint32_t(9)));
  CHECK(refused("attention.recurrent_layers", std::vector<bool>{true}));
  CHECK(refused("attention.recurrent_layers", std::string("all")));
}

TEST_CASE("a Gemma 4 whose layers cannot be is refused with the key that says it") {
  const test::TemporaryFolder folder;
  json::object entry = test::reference_case("Gemma 4");
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  const auto refused = [&](const std::string& named, const auto& change) {
    GgufWriter file = test::to_gguf(folder.path(), "gemma4");
    change(file);
    return says(error_of(GgufSource(folder.write("m/m.gguf", file.bytes())).config()),
                "gemma4." + named);
  };
  const auto put = [&](const std::string& key, auto value) {
    return refused(key, [&](auto& f) { f.put("gemma4." + key, value); });
  };
  for (const std::uint32_t layers : {0u, 100'000u})
    CHECK(refused("block_count", [&](auto& f) {
      f.put("gemma4.block_count", layers);
      for (const char* key :
           {"attention.sliding_window_pattern", "attention.head_count_kv", "feed_forward_length"})
        f.put(std::string("gemma4.") + key, std::uint32_t(2)); // One number for all layers.
    }));
  CHECK(put("attention.sliding_window_pattern", std::vector<bool>{true}));
  CHECK(put("attention.head_count_kv", std::vector<std::int32_t>{1}));
  CHECK(put("feed_forward_length", std::vector<std::int32_t>()));
  CHECK(put("attention.key_length", 1e300));
  CHECK(put("attention.key_length_swa", 0.5));
}

TEST_CASE("a Granite 4 whose recurrent layers cannot be is refused with the key that says it") {
  const test::TemporaryFolder folder;
  json::object entry = test::reference_case("Granite 4");
  entry["shards"] = 1;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  const auto put = [&](const std::string& key, auto value) {
    GgufWriter file = test::to_gguf(folder.path(), "granitehybrid");
    file.put("granitehybrid." + key, value);
    const Error error = error_of(GgufSource(folder.write("m/m.gguf", file.bytes())).config());
    says(error, "granitehybrid." + key);
    return error;
  };
  for (const std::int64_t inner :
       {std::int64_t(-96), std::int64_t(0), std::int64_t(48 * 65), std::int64_t(48) << 50})
    CHECK(says(put("ssm.inner_size", inner),
               "is not 1 to 64 times granitehybrid.embedding_length, and a multiple of "
               "granitehybrid.ssm.time_step_rank"));
  put("ssm.inner_size", 0.5);
  put("ssm.time_step_rank", std::int64_t(-1));
  put("ssm.time_step_rank", std::uint32_t(7));
  put("attention.head_count_kv", std::vector<std::int32_t>{1});
  put("block_count", std::uint32_t(100'000));
}

TEST_CASE("a Nemotron-H whose layers cannot be is refused with the key that says it") {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, test::reference_case("Nemotron-H MoE"), gpu::DType::f32);
  const auto put = [&](const std::string& key, auto value) {
    GgufWriter file = test::to_gguf(folder.path(), "nemotron_h_moe");
    file.put("nemotron_h_moe." + key, value);
    const Error error = error_of(GgufSource(folder.write("m/m.gguf", file.bytes())).config());
    CHECK_MESSAGE(says(error, "nemotron_h_moe." + key), error.text());
  };
  for (const std::int64_t heads : {-1, 0, 7})
    put("ssm.time_step_rank", heads);
  put("feed_forward_length", std::vector<std::int32_t>{1});
  put("attention.head_count_kv", std::vector<std::int32_t>{1});
  put("moe_latent_size", std::uint32_t(16));
  put("expert_gating_func", std::uint32_t(1));
  put("nextn_predict_layers", std::uint32_t(1));
  put("block_count", std::uint32_t(100'000));
}

TEST_CASE("a tensor that is missing, has another shape or is not expected is named") {
  const test::TemporaryFolder folder;
  const auto with = [&](const auto& change) {
    GgufWriter file = small_llama(folder);
    change(file);
    return error_of(test::load(folder.write("m.gguf", file.bytes()), test::device(), {}));
  };
  CHECK(says(with([](auto& f) { f.drop("blk.1.ffn_up.weight"); }), "blk.1.ffn_up.weight"));
  CHECK(says(with([](auto& f) {
               f.tensor("output_norm.weight", {3}, {1, 2, 3});
             }),
             "output_norm.weight"));
  CHECK(says(with([](auto& f) { f.tensor("blk.0.ssm_a", {1}, {1}); }), "blk.0.ssm_a"));
}

TEST_CASE("the ends of a text, the sampling and the template come from the metadata") {
  const test::TemporaryFolder folder;
  GgufWriter file = small_llama(folder);
  const auto source = [&] { return GgufSource(folder.write("m.gguf", file.bytes())); };
  const auto defaults = source().generation_defaults();
  REQUIRE_MESSAGE(defaults, defaults.error().text());
  CHECK(defaults->end_of_text == std::vector<TokenId>{2, 3});
  CHECK(defaults->warping.greedy());
  file.put("general.sampling.temp", 0.5f).put("general.sampling.top_k", std::int32_t(20));
  CHECK(source().generation_defaults()->warping.temperature == 0.5f);
  CHECK(source().generation_defaults()->warping.top_k == 20);
  file.put("general.sampling.penalty_repeat", 500.0f); // Every request would be refused.
  CHECK(says(error_of(source().generation_defaults()), "is not a number from 1e-06 to 100"));
  file.put("general.sampling.penalty_repeat", 1.0f);
  const ChatMessage message{.role = "user", .content = "Hi"};
  const auto rendered = [&] {
    const auto chat = source().chat_template("<s>");
    REQUIRE_MESSAGE(chat, chat.error().text());
    return *chat->render(std::span(&message, 1), true, {});
  };
  CHECK(rendered() == "<s>User: Hi\n\nAssistant:");
  file.put("tokenizer.chat_template",
           std::string("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"));
  CHECK(rendered() == "<s>Hi</s>");
  file.put("tokenizer.chat_template", std::string("{% if %}"));
  CHECK(says(error_of(source().chat_template("")), "tokenizer.chat_template"));
}

TEST_CASE("a file without weights has a tokenizer, and says what it lacks") {
  const test::TemporaryFolder folder;
  GgufWriter file = small_llama(folder);
  for (const std::string& name : file.names())
    file.drop(name);
  const std::string path = folder.write("vocabulary.gguf", file.bytes());
  const auto tokenizer = GgufSource(path).tokenizer();
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().text());
  CHECK((*tokenizer)->encode("ab") == std::vector<TokenId>{1, 4, 5});
  CHECK(says(error_of(test::load(path, test::device(), {})), "token_embd.weight"));
}

TEST_CASE("whoever wants a folder says so of a GGUF") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", small_llama(folder).bytes());
  const auto written = quantize_checkpoint(path, folder.file("out"), {});
  CHECK(says(error_of(written), "m.gguf is a GGUF file, where a folder"));
}
