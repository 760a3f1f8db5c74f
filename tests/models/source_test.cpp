// A loader asks a source by roles, so what another format calls its tensors, and which of them it
// stores as one, changes nothing.
#include "models/checkpoint/folder.hpp"
#include "tests/models/support.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <utility>

using namespace paceline;
using namespace paceline::models;

namespace {

/// The folder's tensors in a format of its own: gate and up are one, below each other.
class FusedTensors final : public TensorSource {
public:
  explicit FusedTensors(std::unique_ptr<TensorSource> folder) : folder_(std::move(folder)) {}

  bool has(TensorRole role) const override {
    if (role == TensorRole::gate_up || role == TensorRole::gate || role == TensorRole::up)
      return role == TensorRole::gate_up;
    return folder_->has(role);
  }
  gpu::DType dtype() const override { return folder_->dtype(); }
  Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) override {
    if (key.role != TensorRole::gate_up)
      return folder_->matrix(key, rows, cols);
    const auto gate = folder_->matrix({TensorRole::gate, key.block}, rows / 2, cols).value();
    const auto up = folder_->matrix({TensorRole::up, key.block}, rows / 2, cols).value();
    const std::size_t half = std::size_t(rows / 2) * std::size_t(cols) * gpu::size_of(gate.dtype);
    auto& both = kept_.emplace_back(2 * half);
    std::memcpy(both.data(), gate.data, half);
    std::memcpy(both.data() + half, up.data, half);
    return gpu::HostMatrix{gate.dtype, both.data(), rows, cols};
  }
  Result<std::vector<float>> bias(TensorKey key, int size) override {
    return folder_->bias(key, size);
  }
  Result<std::vector<float>> vector(TensorKey key, int size) override {
    return folder_->vector(key, size);
  }
  bool same(TensorKey a, TensorKey b) const override { return folder_->same(a, b); }
  void read_ahead_tables() const override {}
  void read_ahead_block(int /*block*/) const override {}
  void release(TensorKey /*key*/) override {}
  void ignore(TensorKey key) override { folder_->ignore(key); }
  void ignore_block(int block) override { folder_->ignore_block(block); }
  std::string name(TensorKey key) const override { return folder_->name(key); }
  Result<void> check_all_taken() const override { return folder_->check_all_taken(); }
  std::uint64_t parameters() const override { return folder_->parameters(); }
  std::vector<Stored> tensors() const override { return folder_->tensors(); }

private:
  std::unique_ptr<TensorSource> folder_;
  std::vector<std::vector<std::byte>> kept_;
};

class OtherFormat final : public CheckpointSource {
public:
  explicit OtherFormat(const std::string& folder) : CheckpointSource("other"), folder_(folder) {}

  Result<ModelConfig> config() const override { return folder_.config(); }
  Result<std::unique_ptr<TensorSource>> tensors(const ModelConfig& config) const override {
    return std::make_unique<FusedTensors>(folder_.tensors(config).value());
  }
  Result<std::shared_ptr<const text::Tokenizer>> tokenizer() const override {
    return folder_.tokenizer();
  }
  Result<text::ChatTemplate> chat_template(const std::string& opening) const override {
    return folder_.chat_template(opening);
  }
  Result<text::ChatTemplate> chat_template_from(const std::string& file) const override {
    return folder_.chat_template_from(file);
  }
  Result<GenerationDefaults> generation_defaults() const override {
    return folder_.generation_defaults();
  }

private:
  FolderSource folder_;
};

} // namespace

TEST_CASE("a model from another format of files computes the same") {
  const std::vector<TokenId> tokens{348, 277, 1, 2, 3, 4, 5};
  const std::string folder = test::demo("draft");
  const auto loaded = [](const CheckpointSource& source) {
    const auto stages = load_model(source, {test::device()}, {});
    REQUIRE_MESSAGE(stages, stages.error().text());
    return stages->front();
  };
  const auto one = loaded(FolderSource(folder));
  const auto other = loaded(OtherFormat(folder));
  CHECK(other->info().name == "other");
  CHECK(other->info().parameters == one->info().parameters);
  CHECK(test::logits_of(other, tokens) == test::logits_of(one, tokens));
}

TEST_CASE("a role that a checkpoint lacks is an error that names its tensor") {
  const FolderSource source(test::demo("draft"));
  const auto tensors = source.tensors(source.config().value()).value();
  const auto absent = tensors->matrix({TensorRole::router, 1}, 1, 1);
  REQUIRE(!absent);
  CHECK(absent.error().message.find("model.layers.1.mlp.gate.weight is missing") !=
        std::string::npos);
}
