#include "apps/bench/steps.hpp"

#include "apps/statistics.hpp"
#include "apps/steady_time.hpp"
#include "models/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <future>

namespace paceline::apps {
namespace {

constexpr int context = 256;
constexpr int prefill_rows = 512;
constexpr int page_tokens = 16;
constexpr int repetitions = 31;
constexpr int prefill_repetitions = 5;
constexpr std::array rows_measured{1, 2, 4, 8, 16};

std::vector<TokenId> some_tokens(int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(TokenId(i * 7 + 1) % vocabulary);
  return tokens;
}

gpu::PageTableRef all_pages(gpu::KvPool& pool) {
  std::vector<gpu::PageRef> pages;
  while (auto page = pool.take())
    pages.push_back(std::move(page));
  return gpu::PageTable::extend(nullptr, page_tokens, std::move(pages));
}

/// The same forward pass again and again.
class ForwardStep final : public gpu::Step {
public:
  ForwardStep(const models::Model& model, const gpu::KvPool& pool, models::Workspace& workspace,
              models::SequenceRows rows, int times)
      : model_(model), pool_(pool), workspace_(workspace), rows_(rows), times_(times) {}

  std::string name() const override { return "bench"; }
  Next prepare(base::TimePoint now) override {
    if (int(seconds_.size()) == times_)
      return Next::done;
    begin_ = now;
    model_.plan({&rows_, 1}, pool_, workspace_);
    return Next::ready;
  }
  gpu::Work work() const override {
    return {gpu::Work::Kind::decode, rows_.rows(), 1, rows_.start + rows_.rows()};
  }
  void run(gpu::Operations& operations) override { model_.forward(operations, workspace_); }
  void complete(base::TimePoint now) override { seconds_.push_back(base::seconds(now - begin_)); }
  void retire(const gpu::Retirement& how) override { retired_.set_value(how); }

  /// Waits for the end.
  Result<double> median_seconds() {
    const gpu::Retirement how = retired_.get_future().get();
    if (how.error)
      return tl::unexpected(*how.error);
    return median(seconds_);
  }

private:
  const models::Model& model_;
  const gpu::KvPool& pool_;
  models::Workspace& workspace_;
  models::SequenceRows rows_;
  int times_;
  base::TimePoint begin_;
  std::vector<double> seconds_;
  std::promise<gpu::Retirement> retired_;
};

/// A model alone on its device, with one sequence's pages. Members go in reverse order: the lane
/// first, then what its steps used.
struct Solo {
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::KvPool> pool;
  gpu::PageTableRef pages;
  std::unique_ptr<models::Workspace> workspace;
  std::unique_ptr<gpu::Lane> lane;

  /// Median seconds of a pass over `rows` tokens from position `start`, logits of 16 at most.
  Result<double> measure(int start, int rows, int times) {
    const auto tokens = some_tokens(rows, model->vocabulary());
    const int logits_from = std::max(0, rows - rows_measured.back());
    const models::SequenceRows sequence{pages->ids, start, tokens, logits_from};
    const auto step = std::make_shared<ForwardStep>(*model, *pool, *workspace, sequence, times);
    if (!lane->submit(step))
      return fail(ErrorCode::internal, "the lane refused a step", "please report it");
    return step->median_seconds();
  }
};

Result<Solo> open_solo(const ModelInfo& info, const std::string& role, const EngineOptions& o) {
  const int threads = role == "target" ? o.threads : 0;
  const int slots = std::max(prefill_rows, context + rows_measured.back());
  Solo solo;
  return gpu::open_device(info.device, {threads, std::make_shared<SteadyTime>(), nullptr})
      .and_then([&](auto device) {
        solo.device = device;
        return models::resolve_model_path(info.name, role);
      })
      .and_then([&](const std::string& path) {
        return models::load_model(path, solo.device, {o.dtype, {}});
      })
      .and_then([&](auto model) {
        solo.model = model;
        return gpu::KvPool::create(*solo.device, model->kv_shape(page_tokens),
                                   std::size_t(slots / page_tokens));
      })
      .and_then([&](auto pool) {
        solo.pool = pool;
        solo.pages = all_pages(*pool);
        return solo.model->make_workspace(slots, rows_measured.back());
      })
      .and_then([&](auto workspace) {
        solo.workspace = std::move(workspace);
        return solo.device->open_lane(role);
      })
      .map([&](auto lane) {
        solo.lane = std::move(lane);
        return std::move(solo);
      });
}

Result<StepTimes> measure_target(const ModelInfo& info, const EngineOptions& o) {
  auto solo = open_solo(info, "target", o);
  if (!solo)
    return tl::unexpected(solo.error());
  StepTimes times;
  if (info.max_model_len >= prefill_rows) {
    const auto prefill = solo->measure(0, prefill_rows, prefill_repetitions);
    if (!prefill)
      return tl::unexpected(prefill.error());
    times.prefill_512 = *prefill;
  }
  for (const int rows : rows_measured) {
    const auto seconds = solo->measure(context, rows, repetitions);
    if (!seconds)
      return tl::unexpected(seconds.error());
    times.target[rows] = *seconds;
  }
  return times;
}

Result<double> measure_draft(const ModelInfo& info, const EngineOptions& o) {
  auto solo = open_solo(info, "draft", o);
  if (!solo)
    return tl::unexpected(solo.error());
  return solo->measure(context, 1, repetitions);
}

} // namespace

double StepTimes::target_seconds(double rows) const {
  const auto above = target.lower_bound(int(std::ceil(rows)));
  if (above == target.end())
    return target.rbegin()->second;
  if (above == target.begin())
    return above->second;
  const auto below = std::prev(above);
  const double share = (rows - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

Result<StepTimes> measure_steps(const ModelInfo& target, const std::optional<ModelInfo>& draft,
                                const EngineOptions& options) {
  if (target.max_model_len < context + rows_measured.back())
    return fail(
        ErrorCode::unsupported,
        fmt::format("the context of {} tokens is too short to measure steps", target.max_model_len),
        "use a model with 272 tokens of context or more");
  auto times = measure_target(target, options);
  if (!times || !draft)
    return times;
  const auto seconds = measure_draft(*draft, options);
  if (!seconds)
    return tl::unexpected(seconds.error());
  times->draft = *seconds;
  return times;
}

} // namespace paceline::apps
