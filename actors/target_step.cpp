#include "actors/target_step.hpp"

#include <algorithm>
#include <utility>

namespace paceline::actors {

using messages::BatchEntry;
using messages::ForwardPass;

namespace {

ForwardPass::Rows rows_of(const BatchEntry& entry) {
  ForwardPass::Rows rows;
  const auto committed = entry.log->first(entry.logged());
  for (int i = entry.logged(); i < entry.length; ++i)
    rows.prefix.push_back(entry.chain->token(i));
  if (entry.assumed > 0) // but for the last they were the window of the step before
    rows.tokens = {rows.prefix.back()};
  else
    rows.tokens.assign(committed.begin() + entry.cached, committed.end());
  if (entry.chain && entry.window > 0) {
    rows.window = std::clamp(entry.chain->drawn() - entry.length, 0, entry.window);
    for (int i = 0; i < rows.window; ++i)
      rows.tokens.push_back(entry.chain->token(entry.length + i));
  }
  if (entry.scores && entry.cached < entry.spec->prompt_tokens)
    rows.logit_rows = int(rows.tokens.size());
  else if (entry.judges)
    rows.logit_rows = rows.window + 1;
  return rows;
}

} // namespace

TargetStep::TargetStep(std::shared_ptr<const models::Model> model,
                       std::shared_ptr<gpu::KvPool> pool, std::shared_ptr<ForwardPass> pass,
                       std::shared_ptr<Telemetry> telemetry)
    : model_(std::move(model)), pool_(std::move(pool)), pass_(std::move(pass)),
      telemetry_(std::move(telemetry)) {}

/// The verification before this step has retired, so that it is known which.
void TargetStep::leave_what_goes_on() {
  const auto before = std::exchange(pass_->before, nullptr);
  pass_->batch.keep(
      [&](std::size_t i) { return i < before->rows.size() && before->rows[i].goes_on; });
}

bool TargetStep::windows_settled() const {
  return std::all_of(pass_->batch.entries.begin(), pass_->batch.entries.end(),
                     [](const BatchEntry& e) {
                       return !e.chain || e.window == 0 || e.chain->settled(e.length + e.window);
                     });
}

gpu::Step::Next TargetStep::prepare(base::TimePoint now) {
  if (ran_)
    return Next::done;
  if (pass_->before)
    leave_what_goes_on();
  if (pass_->batch.entries.empty())
    return Next::done;
  if (!deadline_)
    deadline_ = now + pass_->batch.patience;
  if (!windows_settled() && now < *deadline_)
    return Next::waiting;
  plan();
  ran_ = true;
  telemetry_->overlap.target_began(now);
  return Next::ready;
}

void TargetStep::plan() {
  std::vector<models::SequenceRows> batch;
  int logit_rows = 0;
  work_ = {gpu::Work::Kind::decode, 0, int(pass_->batch.entries.size()), 0};
  for (const BatchEntry& entry : pass_->batch.entries)
    pass_->rows.push_back(rows_of(entry));
  for (std::size_t i = 0; i < pass_->rows.size(); ++i) {
    const BatchEntry& entry = pass_->batch.entries[i];
    ForwardPass::Rows& rows = pass_->rows[i];
    const int count = int(rows.tokens.size());
    rows.first_logit_row = logit_rows;
    logit_rows += rows.logit_rows;
    batch.push_back(
        {entry.pages->ids, entry.cached, rows.tokens, count - rows.logit_rows, entry.fast});
    work_.rows += count;
    work_.context = std::max(work_.context, entry.cached + count);
    if (count > rows.window + 1)
      work_.kind = gpu::Work::Kind::prefill;
  }
  model_->plan(batch, *pool_, *pass_->workspace);
}

gpu::Work TargetStep::work() const {
  return work_;
}

void TargetStep::run(gpu::Operations& operations) {
  model_->forward(operations, *pass_->workspace);
}

void TargetStep::complete(base::TimePoint now) {
  telemetry_->overlap.target_ended(now);
}

void TargetStep::retire(const gpu::Retirement& how) {
  pass_->before = nullptr; // where the lane was closed before it got here
  pass_->retirement = how;
}

} // namespace paceline::actors
