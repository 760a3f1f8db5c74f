// A step that drafts with a Drafter (a look-up, or the caller's own) in the draft model's place, or
// with nothing but the forms of answers.
#pragma once

#include "execution/draft_queue.hpp"
#include "execution/lane_drafter.hpp"
#include "gpu/lane.hpp"
#include "speculation/drafted_sequences.hpp"

#include <memory>
#include <vector>

namespace paceline::execution {

/// Asks the Drafter for the rest of all windows at once, and for lookahead when no window lacks
/// anything. All positions asked for are bound before the call, so that neither its time nor its
/// result can decide what is judged; if it gives fewer tokens, the chain ends.
class DrafterStep final : public gpu::Step {
public:
  using Parts = LaneDrafter::Parts;
  DrafterStep(Parts parts, std::shared_ptr<DraftQueue> queue);

  std::string name() const override { return "propose"; }
  Next prepare(base::TimePoint now) override;
  gpu::Work work() const override;
  void run(gpu::Operations& operations) override;
  void complete(base::TimePoint now) override;
  void retire(const gpu::Retirement& how) override;

private:
  /// A sequence as the Drafter's lane knows it.
  struct Sequence {
    speculation::Frontier at;
    speculation::DraftedText text;
    speculation::FormGuesses form;
  };
  void choose();

  std::shared_ptr<DraftQueue> queue_;
  LaneDrafter drafter_;
  speculation::DraftedSequences<Sequence> sequences_;
  base::TimePoint begin_;
  speculation::DraftPace pace_;
};

} // namespace paceline::execution
