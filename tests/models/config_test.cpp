#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/tensor_files.hpp"
#include "models/sources.hpp"
#include "tests/models/reference_checkpoint.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/says.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <limits>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;
namespace fs = std::filesystem;
using testing::Environment;

namespace {

json::object demo_config() {
  return json::parse(test::read_file(test::demo("target") + "/config.json")).as_object();
}

Result<ModelConfig> config_from(const json::object& config) {
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(config));
  return FolderSource(folder.path()).config();
}

Result<ModelConfig> config_with(const std::string& key, const json::value& value) {
  json::object object = demo_config();
  object[key] = value;
  return config_from(object);
}

Result<GenerationDefaults> defaults_of(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(demo_config()));
  folder.write("generation_config.json", text);
  return FolderSource(folder.path()).generation_defaults();
}

} // namespace

TEST_CASE("the demo pair's configuration is read as it stands") {
  const auto config = FolderSource(test::demo("draft")).config();
  REQUIRE(config);
  CHECK(config->hidden == 128);
  CHECK(config->layers == 2);
  CHECK(config->heads == 4);
  CHECK(config->kv_heads == 2);
  CHECK(config->head_dim == 32);
  CHECK(config->ffn == 384);
  CHECK(config->vocabulary == 4096);
  CHECK(config->context == 1024);
  CHECK(config->norm_epsilon == 1e-5f);
  CHECK(config->tied_embedding);
}

TEST_CASE("what config.json may leave out has its default") {
  CHECK(config_with("head_dim", nullptr)->head_dim == 64);
  CHECK(config_with("num_key_value_heads", nullptr)->kv_heads == 6);
  const auto second_of = [](const char* key, const json::value& value) {
    return double(config_with(key, value)->ropes.at(0).frequencies.at(1));
  };
  const double second = std::pow(500000.0, -2.0 / 64);
  CHECK(second_of("rope_theta", 500000) == doctest::Approx(second));
  CHECK(config_with("rope_scaling", json::object{{"rope_type", "default"}}));
  CHECK(second_of("rope_parameters", json::object{{"rope_type", "default"}, {"rope_theta", 5e5}}) ==
        doctest::Approx(second));
  CHECK(config_with("architectures", nullptr)->architecture == "LlamaForCausalLM");
}

TEST_CASE("LongRoPE turns each pair by its own factor, as far as the positions of training") {
  json::array factors(32, 1.0);
  factors[1] = 1.5;
  json::object rope{{"rope_type", "longrope"},
                    {"short_factor", factors},
                    {"long_factor", json::array(32, 9.0)},
                    {"original_max_position_embeddings", 256}};
  const auto config = config_with("rope_scaling", rope);
  REQUIRE_MESSAGE(config, config.error().text());
  const RopeConfig& own = config->ropes.at(0);
  CHECK(own.frequencies.at(1) == float(std::pow(10000.0, -2.0 / 64) / 1.5));
  CHECK(own.frequencies.at(2) == float(std::pow(10000.0, -4.0 / 64)));
  CHECK(own.factor == doctest::Approx(std::sqrt(1.25))); // 1024 positions are 4 times 256.
  CHECK(config->context == 256);
  rope["attention_factor"] = 1.125;
  rope["rope_type"] = "su";
  CHECK(config_with("rope_scaling", rope)->ropes.at(0).factor == 1.125f);
  for (const json::value& bad :
       {json::value(), json::value(json::array(31, 1.0)), json::value(json::array(32, 0)),
        json::value(json::array(32, "1")), json::value(json::array(32, 1e300))}) {
    rope["short_factor"] = bad;
    const auto refused = config_with("rope_scaling", rope);
    REQUIRE(!refused);
    CHECK(refused.error().message.find("short_factor is not a list of 32 numbers") !=
          std::string::npos);
  }
}

TEST_CASE("an option that would change results is refused by name") {
  const std::pair<const char*, json::value> cases[] = {
      {"architectures", json::array{"BloomForCausalLM"}},
      {"rope_scaling", json::object{{"type", "dynamic"}, {"factor", 2}}},
      {"rope_parameters", json::object{{"rope_type", "mrope"}}},
      {"rope_parameters", json::object{{"partial_rotary_factor", 0.5}}},
      {"hidden_act", "quick_gelu"},
      {"layer_types", json::array{"full_attention"}},
      {"query_pre_attn_scalar", 256},
      {"final_logit_softcapping", 30.0},
      {"no_rope_layers", json::array{0}},
      {"residual_multiplier", 0.22},
      {"num_experts", 8},
      {"use_qk_norm", true},
      {"sliding_window", 4096},
      {"partial_rotary_factor", 0.5},
      {"swiglu_alpha", 7.0}, // of gpt-oss alone, as the next
      {"swiglu_limit", 7.0},
      {"quantization_config", json::object{}},
      {"quantization", json::object{{"bits", 4}}}};
  for (const auto& [name, value] : cases) {
    const auto& key = name;
    CAPTURE(key);
    const auto refused = config_with(key, value);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::unsupported);
    const bool named = refused.error().message.find(std::string(key) == "architectures"
                                                        ? "BloomForCausalLM"
                                                        : key) != std::string::npos;
    CHECK_MESSAGE(named, refused.error().text());
  }
}

TEST_CASE("a quantized checkpoint is called what its method is called") {
  for (const auto& [fields, name] :
       {std::pair{R"({"quant_method": "gptq", "bits": 4})", "quantized by GPTQ"},
        {R"({"quant_method": "awq"})", "quantized by AWQ"},
        {R"({"quant_method": "bitsandbytes"})", "quantized by bitsandbytes"},
        {R"({"load_in_8bit": false, "load_in_4bit": true})", "quantized by bitsandbytes"},
        {R"({"quant_method": "modelopt"})", "quantized by modelopt"},
        {R"({"bits": 4})", "quantized by a method it does not name"}}) {
    const auto refused = config_with("quantization_config", json::parse(fields));
    REQUIRE(!refused);
    CHECK_MESSAGE(refused.error().message.find(name) != std::string::npos, refused.error().text());
    CHECK(refused.error().hint.find("load the original") == 0);
  }
}

TEST_CASE("an option that says no is as good as none") {
  for (const auto& [key, value] : {std::pair<const char*, json::value>{"sliding_window", nullptr},
                                   {"use_qk_norm", false},
                                   {"num_experts", 0},
                                   {"layer_types", json::array{}},
                                   {"partial_rotary_factor", 1.0},
                                   {"an_unheard_of_option", 7}}) {
    const std::string option = key;
    CHECK_MESSAGE(config_with(option, value), option);
  }
}

TEST_CASE("scalings of positions that lack something or contradict themselves are refused") {
  const json::object llama3{{"rope_type", "llama3"}, {"factor", 8}, {"high_freq_factor", 4}};
  json::object turned = llama3;
  turned["low_freq_factor"] = 5;
  for (const auto& [scaling, name] :
       {std::pair<json::object, const char*>{llama3, "low_freq_factor is missing"},
        {turned, "high_freq_factor"},
        {{{"rope_type", "linear"}}, "factor is missing"},
        {{{"rope_type", "linear"}, {"factor", 0}}, "factor is not"},
        {{{"rope_type", "yarn"}}, "factor is missing"},
        {{{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", "x"}}, "beta_fast"},
        {{{"rope_type", 3}}, "rope_type"}}) {
    const auto refused = config_with("rope_scaling", scaling);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(refused.error().message.find(name) != std::string::npos, refused.error().text());
  }
  const auto yarn =
      config_with("rope_scaling", json::object{{"rope_type", "yarn"},
                                               {"factor", 4},
                                               {"original_max_position_embeddings", 1024}});
  CHECK(yarn->context == 4096); // YaRN lengthens what config.json says
}

TEST_CASE("what a family's reference refuses, or reads in another way than it stands, is refused") {
  const auto linear = [](json::object more) {
    more["rope_type"] = "linear";
    more["factor"] = 4;
    return more;
  };
  const json::object whole{{"full_attention", linear({})}};
  const std::tuple<const char*, const char*, json::value> cases[] = {
      {"Phi 3", "rope_scaling", linear({})},
      {"Phi 3", "rope_scaling", json::object{{"type", "yarn"}, {"factor", 4}}},
      {"Phi 3", "rope_parameters", linear({{"rope_theta", 5e5}})},
      {"Gemma 3", "attn_logit_softcapping", 50},
      {"Gemma 3", "rope_parameters", whole}, // beside rope_scaling
      {"Gemma 3, new spelling", "rope_parameters", linear({})},
      {"Gemma 3, new spelling", "rope_parameters", json::object{{"rope_theta", 5e5}}},
      {"Qwen 3", "rope_parameters", whole},
      {"Qwen 3", "rope_scaling", whole}};
  for (const auto& [name, key, value] : cases) {
    json::object config = test::reference_case(name).at("config").as_object();
    config[key] = value;
    const auto refused = config_from(config);
    CAPTURE(std::string(name) + ": " + json::serialize(value));
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::unsupported);
    const bool named = refused.error().message.find("rope_") != std::string::npos ||
                       refused.error().message.find(key) != std::string::npos;
    CHECK_MESSAGE(named, refused.error().text());
  }
}

TEST_CASE(
    "a mixture of experts says which layers have it, and what contradicts itself is refused") {
  const auto read = [](const char* name, const json::object& change) {
    json::object config = test::reference_case(name).at("config").as_object();
    for (const auto& [key, value] : change)
      config[key] = value;
    return config_from(config);
  };
  const ModelConfig glm = read("GLM-4.5 Air, with groups", {{"first_k_dense_replace", 1}}).value();
  CHECK(glm.mixture->layers == std::vector<bool>{false, true, true});
  CHECK(glm.mixture->shared_ffn == 32);
  CHECK(glm.active_ffn() == doctest::Approx((80 + 2 * (3 * 16 + 32)) / 3.0));
  CHECK(glm.stored_ffn() == doctest::Approx((80 + 2 * (16 * 16 + 32)) / 3.0));
  CHECK(glm.ropes.front().frequencies.size() == 4); // half of a head of 16
  const ModelConfig mixed = read("Qwen 3 MoE with dense layers and windows", {}).value();
  CHECK(mixed.mixture->layers == std::vector<bool>{false, false, false, true});
  CHECK(mixed.mixtures() == 1);
  CHECK(mixed.mixture_in(1) == nullptr);
  CHECK(mixed.mixture_in(3)->ffn == 24);
  CHECK(mixed.active_ffn() == doctest::Approx((3 * 80 + 4 * 24) / 4.0));
  CHECK(mixed.stored_ffn() == doctest::Approx((3 * 80 + 16 * 24) / 4.0));
  const std::tuple<const char*, const char*, json::value> cases[] = {
      {"Mixtral", "num_experts_per_tok", 6},
      {"Mixtral", "num_local_experts", 0},
      {"Mixtral", "hidden_size", 56},
      {"Qwen 3 MoE", "moe_intermediate_size", 44},
      {"Qwen 3 MoE", "num_experts", 100'000},
      {"Qwen 3 MoE", "mlp_only_layers", 2},
      {"Qwen 3 MoE", "n_shared_experts", 1},
      {"OLMoE", "clip_qkv", 8.0},
      {"Qwen 3 MoE", "qkv_bias", true},
      {"OLMoE", "routed_scaling_factor", 2.0},
      {"GLM-4.5", "n_group", 3},
      {"GLM-4.5", "n_group", 64},
      {"GLM-4.5", "n_group", 8},
      {"GLM-4.5 Air, with groups", "topk_group", 5},
      {"GLM-4.5", "n_shared_experts", -1},
      {"GLM-4.5", "routed_scaling_factor", 0},
      {"dots.llm1", "n_group", 4}};
  const auto wide = read("Qwen 3 MoE", {{"num_experts", 4096}, {"moe_intermediate_size", 1 << 18}});
  REQUIRE(!wide); // whose rows no `int` counts
  CHECK(paceline::testing::says(wide.error(), "4096 experts of 262144 units are more"));
  const auto shared =
      read("GLM-4.5", {{"n_shared_experts", 4096}, {"moe_intermediate_size", 1024}});
  REQUIRE(!shared);
  CHECK(paceline::testing::says(shared.error(), "n_shared_experts is not an integer from 0 to"));
  CHECK(!read("Qwen 2 MoE", {{"mlp_only_layers", 2}}));
  for (const auto& [name, key, value] : cases) {
    CAPTURE(std::string(name) + ": " + key);
    const auto refused = read(name, {{key, value}});
    REQUIRE(!refused);
    const std::string text = refused.error().text();
    CHECK_MESSAGE((text.find(key) != std::string::npos || text.find("experts of") != text.npos),
                  text);
  }
}

TEST_CASE("a value out of range or of another type is an error that names the field") {
  const std::pair<const char*, json::value> cases[] = {
      {"hidden_size", nullptr},
      {"hidden_size", 0},
      {"hidden_size", -384},
      {"hidden_size", 384.5},
      {"hidden_size", "384"},
      {"hidden_size", 1e30},
      {"hidden_size", std::int64_t(1) << 40},
      {"num_attention_heads", 0},
      {"num_attention_heads", 5},
      {"num_key_value_heads", 4},
      {"num_key_value_heads", json::array{}},
      {"head_dim", 63},
      {"num_hidden_layers", 100000},
      {"vocab_size", 0},
      {"max_position_embeddings", std::int64_t(1) << 50},
      {"rms_norm_eps", "small"},
      {"rms_norm_eps", -1},
      {"rope_theta", 0},
      {"rope_scaling", 7},
      {"attention_bias", "yes"},
      {"tie_word_embeddings", 1},
      {"hidden_act", 3}};
  for (const auto& [name, given] : cases) {
    const auto& key = name;
    const auto& value = given;
    CAPTURE(key);
    CAPTURE(json::serialize(value));
    const auto refused = config_with(key, value);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(refused.error().message.find(key) != std::string::npos, refused.error().text());
    CHECK(refused.error().message.find("config.json") != std::string::npos);
  }
}

TEST_CASE("sampling defaults come from generation_config.json, else greedy") {
  const auto demo = FolderSource(test::demo("target")).generation_defaults();
  REQUIRE(demo);
  CHECK(demo->warping.temperature == 0.8f);
  CHECK(demo->warping.top_p == 0.95f);
  CHECK(demo->warping.top_k == 0);
  CHECK(demo->end_of_text == std::vector<TokenId>{0});

  const auto greedy = defaults_of(R"({"temperature": 0.7, "eos_token_id": [3, 5]})");
  REQUIRE(greedy);
  CHECK(greedy->warping.greedy());
  CHECK(greedy->end_of_text == std::vector<TokenId>{3, 5});
  CHECK(defaults_of(R"({"do_sample": true})")->warping.temperature == 1);
  CHECK(defaults_of(R"({"do_sample": true, "top_k": 20})")->warping.top_k == 20);
  CHECK(defaults_of(R"({"repetition_penalty": 1.1})")->warping.repetition_penalty == 1.1f);
  CHECK(defaults_of("{}")->end_of_text == std::vector<TokenId>{0}); // config.json's
}

TEST_CASE("what a generation_config.json asks for and is not obeyed is named") {
  using Names = std::vector<std::string>;
  CHECK(defaults_of(R"({"suppress_tokens": [1, 2], "bad_words_ids": [[3]], "min_new_tokens": 4,
                        "no_repeat_ngram_size": 3, "num_beams": 5, "top_k": 7})")
            ->not_obeyed == Names{"suppress_tokens", "bad_words_ids", "min_new_tokens",
                                  "no_repeat_ngram_size", "num_beams"});
  CHECK(defaults_of(R"({"suppress_tokens": [], "bad_words_ids": null, "min_new_tokens": 0,
                        "no_repeat_ngram_size": 0, "num_beams": 1, "typical_p": 0.9})")
            ->not_obeyed.empty());
  CHECK(defaults_of(R"({"do_sample": true, "typical_p": 0.9, "epsilon_cutoff": 0})")->not_obeyed ==
        Names{"typical_p"});
}

TEST_CASE("where no configuration names an end of the text, the tokenizer's is it") {
  json::object config = demo_config();
  config["eos_token_id"] = nullptr;
  const test::TemporaryFolder folder;
  folder.write("config.json", json::serialize(config));
  folder.write("tokenizer.json", test::read_file(test::demo("target") + "/tokenizer.json"));
  const auto end = [&] { return FolderSource(folder.path()).generation_defaults()->end_of_text; };
  const auto tokenizer = FolderSource(folder.path()).tokenizer().value();
  const TokenId special = tokenizer->special_ids().front();
  CHECK(end().empty());
  const json::value name(tokenizer->bytes(special, true));
  folder.write("tokenizer_config.json", json::serialize(json::object{{"eos_token", name}}));
  CHECK(end() == std::vector<TokenId>{special});
  folder.write("tokenizer_config.json",
               json::serialize(json::object{{"eos_token", {{"content", name}}}}));
  CHECK(end() == std::vector<TokenId>{special});
  folder.write("tokenizer_config.json", R"({"eos_token": "no such token"})");
  CHECK(end().empty());
  folder.write("tokenizer_config.json", json::serialize(json::object{{"eos_token", name}}));
  folder.write("generation_config.json", R"({"eos_token_id": 5})");
  CHECK(end() == std::vector<TokenId>{5});
}

TEST_CASE("a damaged generation_config.json is an error that names the field") {
  for (const auto& [text, name] :
       {std::pair(R"({"do_sample": 3})", "do_sample"),
        std::pair(R"({"temperature": -1})", "temperature"), std::pair(R"({"top_p": 2})", "top_p"),
        std::pair(R"({"eos_token_id": "x"})", "eos_token_id"),
        std::pair(R"({"eos_token_id": [1, -1]})", "eos_token_id"),
        std::pair("[]", "generation_config.json"), std::pair("{", "generation_config.json")}) {
    const std::string file = text;
    CAPTURE(file);
    const auto refused = defaults_of(file);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(refused.error().message.find(name) != std::string::npos, refused.error().text());
  }
}

TEST_CASE("a model is a folder, the built-in pair, or a snapshot in the hub's local cache") {
  const test::TemporaryFolder cache;
  cache.write("models--org--name.x/refs/main", "abc123");
  cache.write("models--org--name.x/snapshots/abc123/config.json", "{}");
  const Environment hub("HF_HUB_CACHE", cache.path());
  CHECK(resolve_model_path(cache.path(), "target") == cache.path());
  CHECK(resolve_model_path("scripted:seed=1", "draft") == "scripted:seed=1");
  CHECK(resolve_model_path("org/name.x", "target") ==
        cache.path() + "/models--org--name.x/snapshots/abc123");
  for (const char* role : {"target", "draft"}) {
    const auto demo = resolve_model_path("demo", role);
    REQUIRE(demo);
    CHECK(fs::equivalent(*demo, test::demo(role)));
  }
  const Environment elsewhere("PACELINE_DEMO_MODELS", cache.path());
  const auto absent = resolve_model_path("demo", "target");
  REQUIRE(!absent);
  CHECK(absent.error().code == ErrorCode::not_found);
}

TEST_CASE("a model that is not there is an error that says how to get it") {
  const test::TemporaryFolder cache;
  cache.write("file.bin", "x");
  cache.write("models--org--half/refs/main", "gone");
  cache.write("models--org--astray/refs/main", "../../..");
  cache.write("models--org--astray/snapshots/abc/config.json", "{}");
  const Environment hub("HF_HUB_CACHE", cache.path());
  const auto hint = [](const std::string& name) {
    const auto refused = resolve_model_path(name, "target");
    REQUIRE(!refused);
    CHECK(refused.error().message.find(name) != std::string::npos);
    return refused.error().hint;
  };
  for (const char* id : {"org/name", "org/half", "org/astray", "org/name:Q4_K_M"})
    CHECK(hint(id) == std::string("fetch it: paceline pull ") + id);
  for (const char* path : {"nowhere", "/no/where", "./no", "a/b/c", "../x", "org/..", "a b/c", "",
                           "org/name:", "org/name:a/b", "hf:"})
    CHECK(hint(path).find("pull") == std::string::npos);
  CHECK(hint(cache.path() + "/file.bin").find("folder") != std::string::npos);
}

TEST_CASE("any value of config.json replaced by a hostile one is read or refused, never more") {
  const json::value hostile[] = {nullptr,
                                 true,
                                 false,
                                 0,
                                 -1,
                                 1,
                                 3,
                                 std::int64_t(1) << 40,
                                 std::int64_t(1) << 24,
                                 std::numeric_limits<std::int64_t>::min(),
                                 1e308,
                                 -1e-300,
                                 "",
                                 "x",
                                 json::array{},
                                 json::array{0, "x", nullptr},
                                 json::object{},
                                 json::object{{"rope_type", "yarn"}, {"factor", 1e300}}};
  int refused = 0;
  int read = 0;
  const test::TemporaryFolder folder;
  const auto attempt = [&](const json::object& config) {
    folder.write("config.json", json::serialize(config));
    const auto result = FolderSource(folder.path()).config();
    ++(result ? read : refused);
    if (!result) {
      CHECK(result.error().message.find('\n') == std::string::npos);
      return;
    }
    CHECK(result->mixers.size() == std::size_t(result->layers));
    CHECK(result->context > 0);
    for (const LayerConfig& layer : result->mixers)
      CHECK(layer.rope < int(result->ropes.size()));
    for (const RopeConfig& rope : result->ropes)
      for (const float frequency : rope.frequencies)
        CHECK(std::isfinite(frequency));
  };
  for (const json::value& entry : test::reference_cases()) {
    json::object config = entry.at("config").as_object();
    for (auto& [key, value] : config)
      for (const json::value& bad : hostile) {
        const json::value good = std::exchange(value, bad);
        attempt(config);
        value = good;
        if (!value.is_object())
          continue;
        for (auto& [inner_key, inner] : value.get_object()) {
          const json::value inner_good = std::exchange(inner, bad);
          attempt(config);
          inner = inner_good;
        }
      }
  }
  CHECK(refused > 3000);
  CHECK(read > 500);
}

TEST_CASE("config.json and the index with any bytes changed are read or refused, never more") {
  const json::object& entry = test::reference_case("Qwen 3");
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder, entry, gpu::DType::f32);
  std::mt19937 random(11);
  int refused = 0;
  for (const char* name : {"config.json", "model.safetensors.index.json"}) {
    const std::string whole = test::read_file(folder.path() + "/" + name);
    for (int round = 0; round < 1000; ++round) {
      std::string damaged = whole;
      for (unsigned i = 0; i <= random() % 3; ++i)
        damaged[random() % damaged.size()] =
            char(random() % 2 ? random() : "{}[]\",:0-e9"[random() % 11]);
      folder.write(name, damaged);
      refused += !FolderSource(folder.path()).config().has_value() ||
                 !TensorFiles::open(folder.path()).has_value();
    }
    folder.write(name, whole);
  }
  CHECK(refused > 1000);
}
