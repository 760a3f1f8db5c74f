#include "execution/drafter_host.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace paceline::execution {

using speculation::Frontier;

void DrafterHost::begin_anew() {
  anew_ = true;
}

bool DrafterHost::call(Sequences alive, std::span<DraftTask* const> tasks) {
  const std::unique_lock alone(calling_, std::try_to_lock);
  if (!alone || disabled_)
    return false;
  end_those_not_in(anew_.exchange(false) ? Sequences() : alive);
  for (const Frontier* at : alive)
    if (!begun_.contains(at->spec->id))
      begin(*at);
  if (!tasks.empty())
    guard([&] { drafter_->propose(tasks); });
  return true;
}

void DrafterHost::end_those_not_in(Sequences alive) {
  const auto id_of = [](const Frontier* at) { return at->spec->id; };
  for (auto at = begun_.begin(); at != begun_.end();) {
    const auto [id, log] = *at;
    if (std::ranges::binary_search(alive, id, {}, id_of)) {
      ++at;
      continue;
    }
    at = begun_.erase(at);
    guard([&] { drafter_->end(id, log->first(log->size())); });
  }
}

void DrafterHost::begin(const Frontier& at) {
  const speculation::SequenceSpec& spec = *at.spec;
  const sampling::Warping& w = spec.warping;
  begun_.emplace(spec.id, at.log);
  const DraftedSequence sequence{
      spec.id, spec.draft_scope, {w.temperature, w.top_k, w.top_p, w.min_p, spec.noise.seed}};
  guard([&] { drafter_->begin(sequence, at.log->first(at.log_length)); });
}

void DrafterHost::guard(const std::function<void()>& call) {
  try {
    call();
    failures_.succeeded();
  } catch (const std::exception& e) {
    failed(e.what());
  } catch (...) {
    failed("it threw what is no std::exception");
  }
}

void DrafterHost::failed(const std::string& why) {
  base::add(telemetry_->drafter_failures, 1);
  if (!std::exchange(logged_, true))
    telemetry_->log.write(LogLevel::warning,
                          "the drafter failed: " + why +
                              ": it is asked again, and disabled if it keeps failing");
  disabled_ = failures_.failed();
}

} // namespace paceline::execution
