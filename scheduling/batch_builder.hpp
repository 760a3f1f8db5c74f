// Decides what a step of the target does, and for which sequences.
#pragma once

#include "scheduling/config.hpp"
#include "scheduling/drafting.hpp"
#include "scheduling/in_flight.hpp"
#include "scheduling/request_mix.hpp"
#include "scheduling/residency.hpp"
#include "scheduling/step_cost.hpp"

#include <optional>
#include <span>
#include <vector>

namespace paceline::scheduling {

/// Builds batches within a step's bounds: its rows, and its rows of logits. With `hybrid` batching
/// all running streams are in every step, and prompts get the rows that they leave (Agrawal et al.
/// 2023, "SARATHI", section 4): as many as the objective of SchedulerConfig::time_between_tokens
/// allows by what steps cost, or up to where more would only make the step longer. The two others
/// are what SARATHI is compared with: whole prompts before any stream goes on, and batches that run
/// to their end.
class BatchBuilder {
public:
  BatchBuilder(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
               Drafting& drafting, Residency& residency, const StepCost& cost,
               const RequestMix& mix);

  /// Builds the next step, with this number, of all sequences that run and are in none; it marks
  /// those that it takes. In a target of several stages a prompt's next chunk goes behind the
  /// chunks under way. Sequences that lack pages for a row ask for them here. The result has no
  /// entries when there is nothing to do.
  InFlightBatch build(Turn& turn, std::uint64_t id);

  /// Builds the batch behind one that is in flight, as it is to be if all of that is accepted. It
  /// has the very same sequences: a step of others would keep those waiting that had to be left
  /// out. Returns none where a full hit is not likely enough, or somebody else wants rows.
  std::optional<InFlightBatch> build_behind(const InFlightBatch& before, base::TimePoint now);

private:
  struct Allowance;
  bool waits_for_others(const Sequence& s, base::TimePoint now) const;
  std::vector<Sequence*> order(base::TimePoint now) const;
  void leave_share(std::vector<Sequence*>& order, int decoding) const;
  int rows_of_others() const;
  int prompt_rows(std::span<Sequence* const> order) const;
  int tree_rows(std::span<Sequence* const> order) const;
  int rows_beside(std::span<Sequence* const> order, int decoding, double context, int least) const;
  RequestWork open_work() const;
  void share_windows(std::span<Sequence* const> order, int prompt_rows);
  int rows_to_feed(const Sequence& s, const Allowance& left) const;
  std::optional<BatchEntry> entry_for(Turn& turn, Sequence& s, Allowance& left);
  Round round_of(const Sequence& s, int logit_rows) const;
  std::optional<BatchEntry> entry_behind(const BatchEntry& before, Allowance& left);
  ForForks for_forks(const BatchEntry& entry, int logit_rows) const;
  bool has_pages_behind(const Sequence& s, const BatchEntry& entry) const;
  bool others_want_rows() const;

  const SchedulerConfig& config_;
  Sequences& sequences_;
  EpochMint& epochs_;
  Drafting& drafting_;
  Residency& residency_;
  const StepCost& cost_;
  const RequestMix& mix_;
};

} // namespace paceline::scheduling
