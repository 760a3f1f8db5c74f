// A model in stages gives the bits of the same model as a whole, whatever the division.
#include "models/checkpoint/source.hpp"
#include "models/sources.hpp"
#include "models/stages.hpp"
#include "models/synthetic/scripted.hpp"
#include "models/transformer.hpp"
#include "tests/models/reference_checkpoint.hpp"

#include <boost/json.hpp>
#include <cstring>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

using test::Rows;

Devices cores(std::size_t count) {
  Devices devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back(test::device("cpu", 1 + int(i % 2)));
  return devices;
}

Stages in_stages(const CheckpointSource& source, const std::vector<int>& layers,
                 LoadOptions options = {}) {
  options.stage_layers = layers;
  auto stages = load_model(source, cores(layers.size()), options);
  REQUIRE_MESSAGE(stages, stages.error().text());
  return std::move(*stages);
}

std::string refusal(const CheckpointSource& source, std::size_t devices,
                    const std::vector<int>& layers) {
  LoadOptions options;
  options.stage_layers = layers;
  const auto stages = load_model(source, cores(devices), options);
  REQUIRE(!stages);
  return stages.error().text();
}

/// All rows of logits, a prompt in two pieces with a stranger's rows before the second, and then
/// rows of which only the last is asked for.
Rows rows_of(const Stages& stages, const std::vector<TokenId>& tokens) {
  test::Runner runner(stages, 8);
  const auto pages = runner.take_pages(int(tokens.size()));
  const auto other = runner.take_pages(int(tokens.size()));
  const std::span<const TokenId> all(tokens);
  const std::size_t half = all.size() / 2;
  const SequenceRows first{pages, 0, all.first(half), 0};
  Rows out = runner.run({&first, 1});
  const SequenceRows batch[] = {{other, 0, all.last(5), 5},
                                {pages, int(half), all.subspan(half), 0}};
  for (auto& row : runner.run(batch))
    out.push_back(std::move(row));
  const SequenceRows last{other, 0, all, int(all.size()) - 1};
  for (auto& row : runner.run({&last, 1}))
    out.push_back(std::move(row));
  return out;
}

} // namespace

TEST_CASE("a pass over all stages gives the bits of the whole model, however it is divided") {
  const auto source = test::source_of("demo");
  const std::vector<TokenId> tokens = test::some_tokens(41, 4096);
  for (const NumberFormat dtype : {NumberFormat::automatic, NumberFormat::f32}) {
    LoadOptions options;
    options.dtype = dtype;
    const Rows whole = rows_of(in_stages(*source, {6}, options), tokens);
    CHECK(whole.size() == 42);
    for (const std::vector<int>& layers :
         {std::vector{3, 3}, {1, 5}, {5, 1}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}}) {
      CAPTURE(layers.size());
      CHECK(test::same_bits(rows_of(in_stages(*source, layers, options), tokens), whole));
    }
  }
}

TEST_CASE("every stage says once a pass, whatever its threads, that its last layer begins") {
  const auto source = test::source_of("demo");
  test::Runner runner(in_stages(*source, {1, 3, 2}), 8);
  const std::vector<TokenId> tokens = test::some_tokens(5, 4096);
  const auto pages = runner.take_pages(5);
  const SequenceRows rows{pages, 0, tokens, 4};
  for (int passes = 1; passes <= 3; ++passes) {
    runner.run({&rows, 1});
    CHECK(runner.nearly_done() == 3 * passes);
  }
}

TEST_CASE("every family's stages give the bits of the whole") {
  for (const json::value& entry : test::reference_cases()) {
    CAPTURE(std::string(entry.at("name").as_string()));
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, entry.as_object(), gpu::DType::bf16);
    const auto source = test::source_of(folder.path());
    const ModelConfig config = source->config().value();
    const int layers = config.layers;
    const auto prompt = test::ids_of(entry.at("prompt"));
    std::vector<int> parts(std::size_t(layers), 1);
    if (!config.stores(layers - 1)) // The last layers read keys of others, which are with them.
      parts = {1, layers - 1};
    CHECK(test::same_bits(rows_of(in_stages(*source, parts), prompt),
                          rows_of(in_stages(*source, {layers}), prompt)));
  }
}

TEST_CASE("a stage has its layers' weights and pages alone") {
  const auto source = test::source_of("demo");
  const Stages whole = in_stages(*source, {6});
  const Stages stages = in_stages(*source, {1, 3, 2});
  const auto bytes = [](const Stages& models) {
    std::size_t sum = 0;
    for (const auto& model : models)
      sum += model->info().weight_bytes;
    return sum;
  };
  const TransformerWeights& first = *weights_of(*stages[0]);
  const TransformerWeights& middle = *weights_of(*stages[1]);
  const TransformerWeights& last = *weights_of(*stages[2]);
  CHECK((first.embedding && !first.head && !first.final_norm));
  CHECK((!middle.embedding && !middle.head && middle.blocks.size() == 3));
  CHECK((!last.embedding && last.head && last.final_norm));
  const TransformerWeights& all = *weights_of(*whole[0]);
  const bool tied = all.head == all.embedding; // then both the first and the last hold it
  const std::size_t ropes = 2 * sizeof(float) * std::size_t(whole[0]->info().max_model_len) * 32;
  CHECK(bytes(stages) <= bytes(whole) + tied * all.head->bytes() + 2 * ropes);
  CHECK(stages[1]->info().weight_bytes < whole[0]->info().weight_bytes / 2);
  CHECK(stages[1]->kv_shape(16).bytes() == whole[0]->kv_shape(16).bytes() / 2);
  CHECK(stages[0]->info().parameters == whole[0]->info().parameters);
  CHECK(stages[0]->handed_on() == 384);
  CHECK(stages[2]->handed_on() == 0);
}

TEST_CASE("a model is not divided into more stages than layers, nor into others than it has") {
  const auto source = test::source_of("demo");
  CHECK(refusal(*source, 7, {}).find("6 layers, too few for 7 stages") != std::string::npos);
  CHECK(refusal(*source, 2, {3, 4}).find("stage_layers is 3,4") != std::string::npos);
  CHECK(refusal(*source, 2, {6}).find("6 layers for 2 stages") != std::string::npos);
  CHECK(refusal(*source, 2, {6, 0}).find("stage_layers") != std::string::npos);
}

TEST_CASE("layers are divided so that the slowest stage is as fast as it can be") {
  const auto counts = [](int layers, double head, int stages) {
    std::vector<int> out;
    int next = 0;
    for (const LayerRange& range : divide_layers(layers, {1, head, head}, stages)) {
      CHECK(range.first == next);
      next = range.end();
      out.push_back(range.count);
    }
    CHECK(next == layers);
    return out;
  };
  CHECK(counts(6, 0, 1) == std::vector{6});
  CHECK(counts(6, 0, 2) == std::vector{3, 3});
  CHECK(counts(7, 1, 2) == std::vector{4, 3});
  CHECK(counts(32, 4, 4) == std::vector{9, 9, 9, 5});
  CHECK(counts(10, 2, 4) == std::vector{3, 3, 3, 1});
  CHECK(counts(11, 0, 3) == std::vector{3, 4, 4}); // the first has the embedding, too
  CHECK(counts(4, 100, 4) == std::vector{1, 1, 1, 1});
}

TEST_CASE("what a device would have is what it has when the model is loaded, but for packing") {
  const auto source = test::source_of("demo");
  const ModelConfig config = source->config().value();
  const auto tensors = source->tensors(config).value();
  for (const int shards : {1, 2})
    for (const NumberFormat dtype : {NumberFormat::bf16, NumberFormat::f32}) {
      CAPTURE(shards);
      LoadOptions options;
      options.dtype = dtype;
      options.stage_layers = {2, 4};
      const auto stored = dtype == NumberFormat::f32 ? gpu::DType::f32 : gpu::DType::bf16;
      const auto parts =
          parts_of(source->location(), config, *tensors, stored, 2, shards, options).value();
      REQUIRE(parts.size() == 2 * std::size_t(shards));
      Devices devices = cores(2);
      if (shards > 1)
        devices = {test::group(shards), test::group(shards)};
      const Stages stages = load_model(*source, devices, options).value();
      for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        double bytes = 0;
        std::size_t token = 0;
        for (int s = 0; s < shards; ++s) {
          const DevicePart& part = parts[stage * std::size_t(shards) + std::size_t(s)];
          CHECK(part.layers == (stage == 0 ? LayerRange{0, 2} : LayerRange{2, 4}));
          bytes += double(part.weight_bytes);
          token += part.token_bytes;
        }
        CHECK(token == stages[stage]->kv_shape(1).bytes());
        const double loaded = double(stages[stage]->info().weight_bytes);
        CHECK(loaded / bytes > 0.98);
        CHECK(loaded / bytes < 1.15);
      }
    }
  CHECK(!parts_of(source->location(), config, *tensors, gpu::DType::bf16, 1, 5, {}));
  CHECK(!parts_of(source->location(), config, *tensors, gpu::DType::bf16, 7, 1, {}));
}

TEST_CASE("weights that no memory holds say how many devices would") {
  const auto devices = cores(2);
  const double memory = double(devices[0]->memory().total);
  const WeightSizes sizes{memory / 2, 0, 0};
  const auto ranges = divide_layers(5, sizes, 2);
  const auto refused = check_memory("big", sizes, ranges, devices);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::out_of_memory);
  CHECK(refused.error().hint.find("3 devices of that size") != std::string::npos);
  CHECK(check_memory("small", {memory / 16, 0, 0}, ranges, devices));
}

TEST_CASE("a scripted model's stages give its rows, and show a wrong page of any of them") {
  const auto devices = cores(3);
  const ScriptedOptions options{.vocabulary = 16, .memory = 3, .seed = 5};
  const auto whole = make_scripted(options, devices[0]).value();
  const std::vector<TokenId> tokens = test::some_tokens(12, 16);
  Stages head_apart;
  for (const LayerRange layers : {LayerRange{0, 1}, LayerRange{1, 1, true}, LayerRange{2, 0}})
    head_apart.push_back(
        make_scripted_stage(options, layers, 2, devices[head_apart.size()]).value());
  for (const Stages& stages : {make_scripted_stages(options, devices).value(), head_apart})
    for (std::size_t wrong = 0; wrong < stages.size(); ++wrong) {
      CAPTURE(wrong);
      CHECK(test::same_bits(rows_of(stages, tokens), rows_of({whole}, tokens)));
      test::Runner runner(stages, 4);
      const auto pages = runner.take_pages(12);
      const std::span<const TokenId> all(tokens);
      const SequenceRows prompt{pages, 0, all.first(8), 8};
      runner.run({&prompt, 1});
      TokenId& cached = *reinterpret_cast<TokenId*>(runner.pool(wrong).page(pages[1]) + 2 * 4);
      cached = (cached + 1) % 16;
      const SequenceRows next{pages, 8, all.subspan(8, 1), 0};
      CHECK(runner.run({&next, 1}).front() != test::logits_of(whole, all.first(9)).back());
    }
}
