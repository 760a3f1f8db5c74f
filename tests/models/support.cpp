#include "tests/models/support.hpp"

#include "models/sources.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <future>
#include <stdexcept>
#include <unistd.h>

namespace paceline::models::test {
namespace fs = std::filesystem;
namespace {

/// Nothing here waits, so nothing is ever called back.
class SteadyTime final : public base::Timekeeper {
public:
  base::TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void after(base::Duration, std::function<void()>) override {
    throw std::logic_error("no timers in these tests");
  }
};

/// One forward pass.
class PassStep final : public gpu::Step {
public:
  PassStep(const Model& model, Workspace& workspace) : model_(model), workspace_(workspace) {}

  std::string name() const override { return "pass"; }
  Next prepare(base::TimePoint) override { return ran_ ? Next::done : Next::ready; }
  gpu::Work work() const override { return {}; }
  bool in_shards() const override { return true; }
  void run(gpu::Operations& operations) override { model_.forward(operations, workspace_); }
  void complete(base::TimePoint) override { ran_ = true; }
  void retire(const gpu::Retirement& how) override { retired_.set_value(how.completed); }

  bool wait() { return retired_.get_future().get(); }

private:
  const Model& model_;
  Workspace& workspace_;
  bool ran_ = false;
  std::promise<bool> retired_;
};

} // namespace

std::vector<TokenId> ids_of(const boost::json::value& list) {
  return boost::json::value_to<std::vector<TokenId>>(list);
}

Result<std::shared_ptr<const Model>>
load(const std::string& location, std::shared_ptr<gpu::Device> device, const LoadOptions& options) {
  return open_checkpoint(location, "target")
      .and_then([&](const auto& source) { return load_model(*source, {device}, options); })
      .map([](const Stages& stages) { return stages.front(); });
}

std::shared_ptr<const CheckpointSource> source_of(const std::string& name) {
  auto source = open_checkpoint(name, "target");
  REQUIRE_MESSAGE(source, source.error().text());
  return *source;
}

Stages load_stages(const CheckpointSource& source, const Devices& devices,
                   const LoadOptions& options) {
  auto stages = load_model(source, devices, options);
  REQUIRE_MESSAGE(stages, stages.error().text());
  return std::move(*stages);
}

bool same_bits(const Rows& a, const Rows& b) {
  if (a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

double worst_error(const Rows& rows, const Rows& reference) {
  REQUIRE(rows.size() == reference.size());
  double worst = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    REQUIRE(rows[r].size() == reference[r].size());
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      difference += std::pow(double(rows[r][i]) - reference[r][i], 2);
      size += std::pow(double(reference[r][i]), 2);
    }
    const double error = std::sqrt(difference / size);
    worst = error <= worst ? worst : error;
  }
  return worst;
}

double error_of(const std::vector<float>& row, const boost::json::value& reference) {
  return worst_error({row}, {boost::json::value_to<std::vector<float>>(reference)});
}

std::vector<TokenId> some_tokens(int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(TokenId((i * i * 31 + i * 7 + 3) % vocabulary));
  return tokens;
}

void link_all(const std::string& from, const TemporaryFolder& into) {
  for (const auto& entry : fs::directory_iterator(from))
    fs::create_symlink(entry.path(), into.file(entry.path().filename()));
}

std::shared_ptr<gpu::Device> device(const std::string& name, int threads) {
  gpu::DeviceOptions options;
  options.threads = threads;
  options.time = std::make_shared<SteadyTime>();
  auto opened = gpu::open_device(name, options);
  REQUIRE_MESSAGE(opened, opened.error().text());
  return *opened;
}

std::shared_ptr<gpu::Device> group(int shards, const std::string& name, int threads) {
  std::vector<std::shared_ptr<gpu::Device>> devices;
  for (int i = 0; i < shards; ++i)
    devices.push_back(device(name, threads));
  auto made = devices.front()->make_group(devices);
  REQUIRE_MESSAGE(made, made.error().text());
  return *made;
}

Runner::Runner(std::shared_ptr<const Model> model, int page_tokens, std::size_t pages, int max_rows,
               int max_logit_rows)
    : Runner(std::vector{std::move(model)}, page_tokens, pages, max_rows, max_logit_rows) {}

Runner::Runner(const std::vector<std::shared_ptr<const Model>>& stages, int page_tokens,
               std::size_t pages, int max_rows, int max_logit_rows) {
  for (const auto& model : stages) {
    gpu::Device& on = model->device();
    Stage stage;
    stage.model = model;
    const gpu::KvShape shape = model->kv_shape(page_tokens);
    stage.pool = shape.bytes() == 0 ? stages_.front().pool // a head behind others' layers
                                    : gpu::KvPool::create(on, shape, pages, states_max).value();
    stage.workspace = model->make_workspace(max_rows, max_logit_rows).value();
    stage.lane = on.open_lane("target").value();
    if (const auto width = std::size_t(model->handed_on()))
      stage.left = on.allocate(std::size_t(max_rows) * width * sizeof(float)).value();
    stages_.push_back(std::move(stage));
  }
}

Runner::~Runner() = default;

std::vector<std::uint32_t> Runner::take_pages(int tokens) {
  const int page_tokens = pool().shape().page_tokens;
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < (tokens + page_tokens - 1) / page_tokens; ++i) {
    held_.push_back(pool().take());
    REQUIRE(held_.back());
    ids.insert(i % 2 ? ids.begin() : ids.end(), held_.back()->id);
  }
  if (pool().shape().state_bytes > 0) {
    held_.push_back(pool().take_state());
    REQUIRE(held_.back());
    states_[ids.front()] = held_.back()->id;
  }
  return ids;
}

Rows Runner::run(std::span<const SequenceRows> batch) {
  int all = 0;
  int rows = 0;
  for (const SequenceRows& sequence : batch) {
    all += sequence.rows();
    rows += sequence.logit_rows();
  }
  std::vector<SequenceRows> own(batch.begin(), batch.end());
  for (SequenceRows& sequence : own)
    if (const auto at = states_.find(sequence.pages.front()); at != states_.end())
      sequence.state = at->second;
  gpu::Tensor received;
  for (Stage& stage : stages_) {
    stage.workspace->received = received;
    stage.workspace->nearly_done = [this] { ++nearly_done_; };
    if (stage.left)
      stage.workspace->left =
          stage.left->tensor(stage.model->leaves_wanted() ? rows : all, stage.model->handed_on());
    stage.model->plan(own, *stage.pool, *stage.workspace);
    const auto step = std::make_shared<PassStep>(*stage.model, *stage.workspace);
    REQUIRE(stage.lane->submit(step));
    REQUIRE(step->wait());
    received = stage.workspace->left;
  }
  const gpu::Tensor logits = stages_.back().workspace->logits();
  Rows out;
  for (int r = 0; r < rows; ++r)
    out.emplace_back(logits.row(r), logits.row(r) + logits.cols);
  return out;
}

Rows in_pieces(const Stages& stages, const std::vector<TokenId>& tokens, int chunk, bool company,
               int page_tokens) {
  Runner runner(stages, page_tokens);
  const auto pages = runner.take_pages(int(tokens.size()));
  const auto other = runner.take_pages(int(tokens.size()));
  Rows out;
  while (out.size() < tokens.size()) {
    const std::size_t start = out.size();
    const auto rows =
        std::span(tokens).subspan(start, std::min<std::size_t>(chunk, tokens.size() - start));
    std::vector<SequenceRows> batch{{pages, int(start), rows, 0}};
    if (company)
      batch.insert(batch.begin(), {other, 0, std::span(tokens).last(7), 7});
    for (auto& row : runner.run(batch))
      out.push_back(std::move(row));
  }
  return out;
}

Rows logits_of(const std::shared_ptr<const Model>& model, std::span<const TokenId> tokens) {
  Runner runner(model, 16);
  const auto pages = runner.take_pages(int(tokens.size()));
  const SequenceRows rows{pages, 0, tokens, 0};
  return runner.run({&rows, 1});
}

Rows logits_at(const std::string& location, const LoadOptions& options) {
  const auto model = load(location, device(), options);
  REQUIRE_MESSAGE(model, model.error().text());
  return logits_of(*model, some_tokens(40, 160));
}

} // namespace paceline::models::test
