#include "execution/drafter_step.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::execution {

using speculation::Chain;
using speculation::Frontier;

DrafterStep::DrafterStep(Parts parts, std::shared_ptr<DraftQueue> queue)
    : parts_(std::move(parts)), queue_(std::move(queue)),
      rows_(std::make_shared<RowPool>(parts_.device, parts_.reader, parts_.vocabulary)) {}

gpu::Step::Next DrafterStep::prepare(base::TimePoint now) {
  do {
    absorb(queue_->take());
    current_ = choose();
    if (!current_)
      continue;
    Chain& chain = *current_->chain;
    const int next = chain.next();
    const int end = next < chain.window_end() ? chain.window_end() : chain.limit();
    asked_ = end - next;
    chain.bind(end);
    begin_ = now;
    return Next::ready;
  } while (!queue_->leave_lane());
  return Next::done;
}

void DrafterStep::absorb(DraftQueue::News news) {
  for (Frontier& frontier : news.frontiers) {
    if (frontier.residency->over.load(std::memory_order_acquire))
      continue;
    Frontier& known = sequences_[frontier.spec->id];
    if (!known.chain || known.epoch <= frontier.epoch)
      known = std::move(frontier);
  }
  std::erase_if(sequences_, [](const auto& entry) {
    return entry.second.residency->over.load(std::memory_order_acquire);
  });
}

/// The sequence whose window lacks most; lookahead only when no window does.
Frontier* DrafterStep::choose() {
  Frontier* best = nullptr;
  const auto lacks = [](const Frontier& f) { return f.chain->window_end() - f.chain->next(); };
  for (auto& [id, frontier] : sequences_)
    if (frontier.chain->next() >= 0 && (!best || lacks(frontier) > lacks(*best)))
      best = &frontier;
  return best;
}

std::vector<TokenId> DrafterStep::context_of(const Frontier& at) const {
  const auto committed = at.log->first(at.log_length);
  std::vector<TokenId> context(committed.begin(), committed.end());
  context.insert(context.end(), at.tokens.begin(), at.tokens.end());
  for (int position = at.length(); position < at.chain->drawn(); ++position)
    context.push_back(at.chain->token(position));
  return context;
}

gpu::Work DrafterStep::work() const {
  return {gpu::Work::Kind::draft, asked_, 1, current_->length()};
}

void DrafterStep::run(gpu::Operations& operations) {
  if (operations.rank() != 0)
    return;
  proposal_ = {};
  const std::unique_lock alone(*parts_.calling, std::try_to_lock);
  if (!alone)
    return;
  const sampling::Warping& w = current_->spec->warping;
  const DrafterSampling how{w.temperature, w.top_k, w.top_p, w.min_p, current_->spec->noise.seed};
  try {
    proposal_ = parts_.drafter->propose(context_of(*current_), asked_, how);
  } catch (...) { // as documented: no proposal
  }
}

/// The row a token was drawn from: the drafter's, normalised, or a point mass. Null when the
/// drafter's is no distribution over the vocabulary, or memory is short.
speculation::QRow DrafterStep::q_row(const Proposal& proposal, std::size_t index) const {
  speculation::QRow row = rows_->take();
  if (!row)
    return nullptr;
  const std::span<float> q{row.get(), std::size_t(parts_.vocabulary)};
  std::fill(q.begin(), q.end(), 0.0f);
  if (proposal.log_q.empty()) {
    q[std::size_t(proposal.tokens[index])] = 1;
    return row;
  }
  if (index >= proposal.log_q.size() || proposal.log_q[index].size() < q.size())
    return nullptr;
  double sum = 0;
  for (std::size_t i = 0; i < q.size(); ++i)
    sum += double(q[i] = std::exp(proposal.log_q[index][i]));
  if (!std::isfinite(sum) || sum <= 0)
    return nullptr;
  for (float& x : q)
    x = float(double(x) / sum);
  return row;
}

void DrafterStep::complete(base::TimePoint now) {
  Chain& chain = *current_->chain;
  const bool needs_q = current_->spec->needs_q();
  int position = chain.drawn();
  pace_.observe((now - begin_) / std::max(1, asked_), false);
  chain.spent(now - begin_, pace_);
  const int end = position + std::min(asked_, int(proposal_.tokens.size()));
  for (std::size_t i = 0; position < end; ++i, ++position) {
    const TokenId token = proposal_.tokens[i];
    if (token < 0 || token >= parts_.vocabulary)
      break;
    speculation::QRow q = needs_q ? q_row(proposal_, i) : nullptr;
    if (needs_q && !q)
      break;
    base::add(parts_.telemetry->drafted, 1);
    chain.put(position, token, std::move(q));
  }
  if (chain.drawn() < chain.bound())
    chain.end_at(chain.drawn());
  parts_.telemetry->overlap.drafted(begin_, now);
}

// Nobody waits for what an abandoned step left undone.
void DrafterStep::retire(const gpu::Retirement& how) {
  if (how.completed)
    return;
  for (auto& [id, frontier] : sequences_)
    frontier.chain->end_at(frontier.chain->drawn());
  sequences_.clear();
  queue_->fail();
}

} // namespace paceline::execution
