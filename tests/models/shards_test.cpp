// A model in shards says what the whole one says but for rounding, and always with the same bits.
#include "models/shards.hpp"
#include "models/sources.hpp"
#include "models/synthetic/scripted.hpp"
#include "tests/models/reference_checkpoint.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::Rows;

std::string refused_shards(const CheckpointSource& source, int shards,
                           const LoadOptions& options = {}) {
  const auto refused = load_model(source, {test::group(shards)}, options);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  return refused.error().text();
}

LoadOptions in_f32() {
  LoadOptions options;
  options.dtype = NumberFormat::f32;
  return options;
}

LoadOptions in_blocks() {
  LoadOptions options;
  options.blocks = gpu::Quantization{WeightFormat::mxfp6, ScaleChoice::floor};
  options.head = options.blocks;
  return options;
}

} // namespace

TEST_CASE("two shards' logits are the whole model's but for rounding") {
  const auto source = test::source_of("demo");
  const auto tokens = test::some_tokens(41, 4096);
  struct Case {
    LoadOptions options;
    double tolerance;
  };
  for (const Case& c : {Case{in_f32(), 1e-5}, Case{{}, 0.02}, Case{in_blocks(), 0.02}}) {
    const Rows whole =
        test::in_pieces(test::load_stages(*source, {test::device()}, c.options), tokens);
    const Rows shards =
        test::in_pieces(test::load_stages(*source, {test::group(2)}, c.options), tokens);
    const double off = test::worst_error(shards, whole);
    MESSAGE("off by ", off);
    CHECK(off <= c.tolerance);
    CHECK(off > 0); // products are summed in another order
  }
}

TEST_CASE("a number of shards has bits of its own, whatever is run beside and on what") {
  const auto source = test::source_of("demo");
  const auto tokens = test::some_tokens(41, 4096);
  for (const LoadOptions& options : {LoadOptions{}, in_blocks()}) {
    const Stages shards = test::load_stages(*source, {test::group(2)}, options);
    const Rows expected = test::in_pieces(shards, tokens);
    for (int run = 0; run < 3; ++run)
      CHECK(test::same_bits(test::in_pieces(shards, tokens), expected));
    for (const int chunk : {1, 5, 16})
      CHECK(test::same_bits(test::in_pieces(shards, tokens, chunk, chunk > 1, chunk == 5 ? 4 : 16),
                            expected));
    for (const int threads : {2, 3})
      CHECK(test::same_bits(
          test::in_pieces(test::load_stages(*source, {test::group(2, "cpu", threads)}, options),
                          tokens, 5),
          expected));
    CHECK(test::same_bits(
        test::in_pieces(test::load_stages(*source, {test::group(2), test::group(2)}, options),
                        tokens, 16),
        expected));
  }
}

TEST_CASE("every family is divided, or says why it is not") {
  int divided = 0;
  for (const json::value& entry : test::reference_cases()) {
    CAPTURE(std::string(entry.at("name").as_string()));
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, entry.as_object(), gpu::DType::f32);
    const auto source = test::source_of(folder.path());
    const ModelConfig config = source->config().value();
    const auto prompt = test::ids_of(entry.at("prompt"));
    const Rows whole = test::in_pieces(test::load_stages(*source, {test::device()}), prompt);
    for (const int shards : {2, 4}) {
      CAPTURE(shards);
      const auto models = load_model(*source, {test::group(shards)}, {});
      const bool allowed = bool(check_shards("it", config, false, shards));
      CHECK(bool(models) == allowed);
      CHECK(((config.qk_norm != QkNorm::full_width && !config.has_states()) || !allowed));
      if (!models)
        continue;
      ++divided;
      CHECK(test::worst_error(test::in_pieces(*models, prompt, 7, true), whole) <= 1e-4);
    }
  }
  CHECK(divided > 20);
}

TEST_CASE("a shard has its part of the weights and of the pages") {
  const auto source = test::source_of("demo");
  const auto whole = test::load_stages(*source, {test::device()}).front();
  const auto shards = test::load_stages(*source, {test::group(2)}).front();
  CHECK(shards->info().shards == 2);
  CHECK(shards->info().device.find('|') != std::string::npos);
  CHECK(shards->info().parameters == whole->info().parameters);
  const std::size_t copies = whole->info().weight_bytes / 20; // of norms and rotations
  CHECK(shards->info().weight_bytes <= whole->info().weight_bytes + copies);
  CHECK(shards->kv_shape(16).bytes() == whole->kv_shape(16).bytes());
  CHECK(shards->kv_shape(16).page_bytes() == whole->kv_shape(16).page_bytes() / 2);
  const auto pool = gpu::KvPool::create(shards->device(), shards->kv_shape(16), 3).value();
  CHECK(pool->shard(0).page(1) == pool->page(1));
  CHECK(pool->shard(1).page(1) != pool->page(1));
  CHECK(pool->ledger().total == 3);
}

TEST_CASE("parts of a table are even and leave nothing out") {
  for (const int rows : {5, 16, 4097})
    for (const int of : {1, 2, 3, 5}) {
      int next = 0;
      for (int number = 0; number < of; ++number) {
        const Range part = Shard{number, of}.part(rows);
        CHECK(part.first == next);
        CHECK(part.count >= rows / of);
        CHECK(part.count <= rows / of + 1);
        next += part.count;
      }
      CHECK(next == rows);
    }
}

TEST_CASE("more shards than heads of keys and values share them") {
  ModelConfig config;
  config.heads = 8;
  config.kv_heads = 2;
  config.ffn = 64;
  config.vocabulary = 100;
  config.layers = 1;
  config.mixers.resize(1);
  CHECK(check_shards("it", config, false, 8));
  for (int number = 0; number < 4; ++number) {
    const Shard shard{number, 4};
    CHECK(shard.heads(config) == Range{2 * number, 2});
    CHECK(shard.kv_heads(2) == Range{number / 2, 1});
    CHECK(shard.config(config).kv_heads == 1);
  }
  CHECK(Shard{1, 2}.kv_heads(2) == Range{1, 1});
  config.mixers.front() = {.kv_heads = 1, .ffn = 32};
  CHECK(check_shards("it", config, false, 8));
  CHECK(Shard{1, 4}.config(config).kv_heads_in(0) == 1);
  CHECK(Shard{1, 4}.config(config).ffn_in(0) == 8);
  config.mixers.front().ffn = 36;
  CHECK(!check_shards("it", config, false, 8));
}

TEST_CASE("what does not divide a model is refused with what does") {
  const auto source = test::source_of("demo");
  const std::string three = refused_shards(*source, 3);
  CHECK(three.find("tensor_parallel_size is 3, and") != std::string::npos);
  CHECK(three.find("has 6 heads, 2 of keys and values, and 1024 feed-forward units") !=
        std::string::npos);
  CHECK(three.find("give 1, 2") != std::string::npos);
  ModelConfig config = source->config().value();
  config.ffn = 2 * 48;
  CHECK(check_shards("it", config, false, 2));
  const auto blocks = check_shards("it", config, true, 2); // 48 are a block and a half
  REQUIRE(!blocks);
  CHECK(blocks.error().message.find("in blocks of 32") != std::string::npos);
  CHECK(blocks.error().hint == "give 1");
  config.qk_norm = QkNorm::full_width;
  const auto norm = check_shards("it", config, false, 2);
  REQUIRE(!norm);
  CHECK(norm.error().message.find("queries of all heads together") != std::string::npos);
}

TEST_CASE("experts are divided in whole eights of units, in blocks in whole blocks") {
  ModelConfig config;
  config.layers = 1;
  config.mixers.resize(1);
  config.heads = config.kv_heads = 8;
  config.head_dim = 32;
  config.ffn = 640;
  config.vocabulary = 100;
  config.mixture =
      MixtureConfig{.experts = 4, .top_k = 2, .ffn = 64, .router = {}, .layers = {true}};
  CHECK(check_shards("it", config, false, 8));
  CHECK(check_shards("it", config, true, 2));
  CHECK(!check_shards("it", config, true, 4));
  CHECK(Shard{1, 4}.config(config).mixture->ffn == 16);
  config.mixture->shared_ffn = 96;
  CHECK(check_shards("it", config, false, 8));
  CHECK(Shard{1, 4}.config(config).mixture->shared_ffn == 24);
  CHECK(!check_shards("it", config, true, 2)); // 48 are a block and a half.
  config.mixture->shared_ffn = 60;
  const auto shared = check_shards("it", config, false, 8);
  REQUIRE(!shared);
  CHECK(shared.error().message.find("experts of 64 units") != std::string::npos);
  CHECK(shared.error().message.find("shared ones of 60") != std::string::npos);
  config.mixture->shared_ffn = 0;
  config.mixture->ffn = 24;
  const auto refused = check_shards("it", config, false, 2);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("experts of 24 units") != std::string::npos);
  CHECK(refused.error().hint == "give 1");
}

TEST_CASE("shards on devices of several kinds are refused") {
  const Devices mixed{test::device("cpu"), test::device("sim:1ms")};
  for (const auto& group : {mixed[0]->make_group(mixed), mixed[1]->make_group(mixed)}) {
    REQUIRE(!group);
    CHECK(group.error().message.find("EngineOptions::tensor_parallel_size is 2") !=
          std::string::npos);
  }
}

TEST_CASE("a scripted model in shards gives its rows, and shows a wrong page of any of them") {
  const ScriptedOptions options{.vocabulary = 16, .memory = 3, .seed = 5};
  const auto whole = make_scripted(options, test::device()).value();
  const auto tokens = test::some_tokens(12, 16);
  const Rows expected = test::in_pieces({whole}, tokens);
  const Devices stages{test::group(2), test::group(2, "cpu", 2)};
  const auto models = make_scripted_stages(options, stages).value();
  CHECK(test::same_bits(test::in_pieces(models, tokens), expected));
  for (std::size_t stage = 0; stage < 2; ++stage)
    for (const int shard : {0, 1}) {
      CAPTURE(stage);
      CAPTURE(shard);
      test::Runner runner(models, 4);
      const auto pages = runner.take_pages(12);
      const std::span<const TokenId> all(tokens);
      const SequenceRows prompt{pages, 0, all.first(8), 8};
      runner.run({&prompt, 1});
      std::byte* const page = runner.pool(stage).shard(shard).page(pages[1]);
      TokenId& cached = *reinterpret_cast<TokenId*>(page + 2 * sizeof(TokenId));
      cached = (cached + 1) % 16;
      const SequenceRows next{pages, 8, all.subspan(8, 1), 0};
      CHECK(runner.run({&next, 1}).front() != expected[8]);
    }
}
