#include "models/transformer.hpp"
#include "tests/models/support.hpp"
#include "tests/support/forwarding_device.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <iterator>

using namespace paceline;
using namespace paceline::models;
namespace json = boost::json;

namespace {

std::shared_ptr<const Model>
load_demo(const std::string& role, NumberFormat dtype = NumberFormat::automatic, int threads = 1) {
  LoadOptions options;
  options.dtype = dtype;
  auto model = test::load(test::demo(role), test::device("cpu", threads), options);
  REQUIRE_MESSAGE(model, model.error().text());
  return *model;
}

/// A processor on which 8 bits are faster, or not.
class Measured final : public paceline::testing::ForwardingDevice {
public:
  explicit Measured(bool faster) : ForwardingDevice(test::device()), faster_(faster) {}
  bool faster_in_int8() const override { return faster_; }

private:
  const bool faster_;
};

/// Returns what the demo target in mxfp4 has 8 bits for in a role.
std::string in_8_bits(const EngineOptions& options, const char* role, Devices devices) {
  LoadOptions how = load_formats(options, role);
  how.blocks = gpu::Quantization{WeightFormat::mxfp4, ScaleChoice::floor};
  const auto source = open_checkpoint(test::demo("target"), "target");
  REQUIRE(source);
  const auto stages = load_model(**source, std::move(devices), how);
  REQUIRE_MESSAGE(stages, stages.error().text());
  const ModelInfo& info = stages->front()->info();
  return (info.activations.empty() ? "" : "rows ") +
         std::string(info.kv_cache_dtype.empty() ? "" : "cache");
}

double log_sum_exp(const std::vector<float>& row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row)
    sum += std::exp(x - top);
  return top + std::log(sum);
}

/// RMS(difference) / RMS(reference) over the columns the file keeps of a row.
double relative_error(const std::vector<float>& row, const json::object& reference, int step) {
  const json::array& columns = reference.at("logits").as_array();
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double expected = columns[i].to_number<double>();
    difference += std::pow(row[i * std::size_t(step)] - expected, 2);
    size += expected * expected;
  }
  return std::sqrt(difference / size);
}

/// The worst error over all of the file's rows; checks what else it says of them.
double compare_with_reference(NumberFormat dtype, double loss_tolerance) {
  const json::value file = test::data("demo_logits.json");
  const int step = int(file.at("column_step").as_int64());
  double worst = 0;
  for (const std::string role : {"target", "draft"}) {
    const auto model = load_demo(role, dtype);
    for (const json::value& entry : file.at("cases").as_array()) {
      if (entry.at("model").as_string() != role)
        continue;
      const auto ids = test::ids_of(entry.at("ids"));
      const auto logits = test::logits_of(model, ids);
      double loss = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        loss += log_sum_exp(logits[i]) - logits[i][std::size_t(ids[i + 1])];
      CHECK(loss / std::max<double>(1, double(ids.size()) - 1) ==
            doctest::Approx(entry.at("loss").to_number<double>()).epsilon(loss_tolerance));
      for (const json::value& row : entry.at("rows").as_array())
        worst = std::max(worst, relative_error(logits[std::size_t(row.at("position").as_int64())],
                                               row.as_object(), step));
    }
  }
  return worst;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<TokenId> long_prompt() {
  const json::value file = test::data("demo_logits.json");
  for (const json::value& entry : file.at("cases").as_array())
    if (entry.at("ids").as_array().size() > 100)
      return test::ids_of(entry.at("ids"));
  return {};
}

/// Feeds `tokens` in pieces of the given sizes (cyclically), a stranger's rows beside each, and
/// returns the logits of all positions.
std::vector<std::vector<float>> in_pieces(test::Runner& runner, const std::vector<TokenId>& tokens,
                                          const std::vector<int>& sizes, bool company) {
  const auto pages = runner.take_pages(int(tokens.size()));
  const auto other_pages = runner.take_pages(64);
  std::vector<TokenId> other(64);
  for (std::size_t i = 0; i < other.size(); ++i)
    other[i] = TokenId(i * 61 % 4096);
  std::vector<std::vector<float>> out;
  for (std::size_t piece = 0; out.size() < tokens.size(); ++piece) {
    const int start = int(out.size());
    const int count = std::min(sizes[piece % sizes.size()], int(tokens.size()) - start);
    const SequenceRows stranger{other_pages, 0, std::span(other).first(1 + piece % 40),
                                int(piece % 3 == 0)};
    const SequenceRows rows{pages, start,
                            std::span(tokens).subspan(std::size_t(start), std::size_t(count)), 0};
    std::vector<SequenceRows> batch{rows};
    if (company)
      batch.insert(piece % 2 ? batch.end() : batch.begin(), stranger);
    auto logits = runner.run(batch);
    const auto first = logits.begin() + (company && piece % 2 == 0 ? stranger.logit_rows() : 0);
    std::move(first, first + count, std::back_inserter(out));
  }
  return out;
}

} // namespace

TEST_CASE("the demo pair's logits agree with an independent forward pass, weights in f32") {
  const double worst = compare_with_reference(NumberFormat::f32, 1e-5);
  MESSAGE("worst relative error, f32: ", worst);
  CHECK(worst <= 1e-4);
}

TEST_CASE("the demo pair's logits agree with an independent forward pass, weights in bf16") {
  const double worst = compare_with_reference(NumberFormat::automatic, 1e-2);
  MESSAGE("worst relative error, bf16: ", worst);
  CHECK(worst <= 2e-2);
  CHECK(worst > 1e-6); // f32 products would mean that bf16 was not what ran
}

TEST_CASE("a row of logits has the same bits whatever chunks, batch, pages and threads") {
  std::vector<TokenId> tokens = long_prompt();
  tokens.resize(100);
  for (const std::string role : {"target", "draft"}) {
    CAPTURE(role);
    const auto one = load_demo(role);
    test::Runner whole(one, 16);
    const auto expected = in_pieces(whole, tokens, {100}, false);
    struct Setting {
      int page_tokens;
      std::vector<int> sizes;
      bool company;
      int threads;
    };
    for (const Setting& s :
         {Setting{16, {1}, false, 1}, Setting{16, {5, 1, 9}, true, 2}, Setting{2, {64}, false, 2},
          Setting{6, {17, 2, 33}, true, 1}, Setting{64, {80, 1}, true, 3}}) {
      CAPTURE(s.page_tokens);
      CAPTURE(s.threads);
      const auto model = s.threads == 1 ? one : load_demo(role, NumberFormat::automatic, s.threads);
      test::Runner runner(model, s.page_tokens, 512);
      const auto logits = in_pieces(runner, tokens, s.sizes, s.company);
      int different = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        different += !same_bits(logits[i], expected[i]);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("rows that are not asked for leave the cache as if they had been") {
  const auto model = load_demo("draft");
  std::vector<TokenId> tokens = long_prompt();
  tokens.resize(40);
  test::Runner runner(model, 8);
  const auto expected = in_pieces(runner, tokens, {40}, false);
  const auto pages = runner.take_pages(40);
  const std::span<const TokenId> all(tokens);
  const SequenceRows silent{pages, 0, all.first(20), 20};
  CHECK(runner.run({&silent, 1}).empty());
  const SequenceRows partly{pages, 20, all.subspan(20, 15), 12};
  const auto some = runner.run({&partly, 1});
  REQUIRE(some.size() == 3);
  CHECK(same_bits(some[0], expected[32]));
  CHECK(same_bits(some[2], expected[34]));
  const SequenceRows rest{pages, 35, all.subspan(35), 0};
  CHECK(same_bits(runner.run({&rest, 1}).back(), expected[39]));
}

TEST_CASE("a model says what it is") {
  std::vector<double> progress;
  LoadOptions options;
  options.progress = [&](const std::string&, double done) { progress.push_back(done); };
  const auto model = test::load(test::demo("target"), test::device(), options);
  REQUIRE(model);
  const ModelInfo& info = (*model)->info();
  CHECK(info.architecture == "LlamaForCausalLM");
  CHECK(info.parameters == 11'015'040);
  CHECK(info.dtype == "bf16");
  CHECK(info.vocabulary == 4096);
  CHECK(info.max_model_len == 1024);
  CHECK(info.weight_bytes >= 2 * info.parameters);
  CHECK((*model)->kv_shape(16).token_bytes == 6u * 2 * 2 * 64 * 2);
  CHECK(load_demo("draft", NumberFormat::f32)->kv_shape(16).token_bytes == 2u * 2 * 2 * 32 * 4);
  CHECK(std::is_sorted(progress.begin(), progress.end()));
  CHECK(progress.back() == 1);
  options.kv_cache_dtype = KvCacheDtype::int8;
  const auto narrow = test::load(test::demo("target"), test::device(), options);
  REQUIRE(narrow);
  CHECK((*narrow)->kv_shape(16).token_bytes == 6u * 2 * 2 * (64 + 4));
  CHECK((*narrow)->cache_width() == doctest::Approx(68.0 / 128));
  CHECK((*model)->cache_width() == 1);
}

TEST_CASE(
    "a draft is in 8 bits where all of its devices are faster with them, unless told not to") {
  const auto faster = std::make_shared<Measured>(true);
  const auto slower = std::make_shared<Measured>(false);
  EngineOptions options;
  CHECK(in_8_bits(options, "draft", {faster}) == "rows cache");
  CHECK(in_8_bits(options, "draft", {faster, faster}) == "rows cache");
  CHECK(in_8_bits(options, "draft", {faster, slower}) == "");
  CHECK(in_8_bits(options, "draft", {slower}) == "");
  CHECK(in_8_bits(options, "target", {faster}) == "");
  options.draft_activations = Activations::bf16;
  CHECK(in_8_bits(options, "draft", {faster}) == "cache");
  options.draft_kv_cache_dtype = KvCacheDtype::as_weights;
  CHECK(in_8_bits(options, "draft", {faster}) == "");
  options.draft_activations = Activations::int8;
  options.draft_kv_cache_dtype = KvCacheDtype::int8;
  CHECK(in_8_bits(options, "draft", {slower}) == "rows cache");
}

TEST_CASE("a checkpoint of f32 can be run in bf16, and no checkpoint of bf16 in f16") {
  LoadOptions options;
  options.dtype = NumberFormat::f16;
  const auto refused = test::load(test::demo("draft"), test::device(), options);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
}

TEST_CASE("a model may have all but its linear layers in common with another one, bit for bit") {
  const auto device = test::device();
  LoadOptions options;
  const auto whole = test::load(test::demo("target"), device, options);
  REQUIRE(whole);
  options.blocks = gpu::Quantization{WeightFormat::mxfp4, ScaleChoice::search};
  const auto alone = test::load(test::demo("target"), device, options);
  REQUIRE(alone);
  options.shared = *whole;
  const auto sharing = test::load(test::demo("target"), device, options);
  REQUIRE(sharing);

  const TransformerWeights& theirs = *weights_of(**whole);
  const TransformerWeights& ours = *weights_of(**sharing);
  CHECK(ours.embedding == theirs.embedding);
  CHECK(ours.head == theirs.head);
  CHECK(ours.final_norm == theirs.final_norm);
  CHECK(ours.ropes[0].cos == theirs.ropes[0].cos);
  CHECK(ours.blocks[1].ffn_norm == theirs.blocks[1].ffn_norm);
  CHECK(ours.blocks[1].down->format() == WeightFormat::mxfp4);
  CHECK((*sharing)->info().parameters == (*alone)->info().parameters);
  CHECK((*sharing)->info().weight_bytes == (*alone)->info().weight_bytes);
  const std::vector<TokenId> tokens{348, 17, 95, 1024, 7};
  CHECK(test::logits_of(*sharing, tokens) == test::logits_of(*alone, tokens));
}
