#include "tests/simulation/machines.hpp"

#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

/// The time behind the patience by which waiting requests have failed: pauses before actors are
/// started again, and as many recomputations as a request has.
constexpr base::Duration to_fail = 6s;
constexpr std::string_view stage_gone = "a stage of the target is gone: node://";

} // namespace

Machines::Machines(Ground& ground, const Workload& workload, std::uint64_t seed, Report& report,
                   std::function<int(base::TimePoint)> open_since)
    : ground_(ground), workload_(workload), report_(report), open_since_(std::move(open_since)) {
  for (std::size_t i = 0; i < workload.machines.size(); ++i) {
    nodes_.push_back(std::make_shared<SimulatedNode>(ground, workload, i, seed, report.probes));
    if (workload.machines[i].drafts)
      draft_ = nodes_.back();
    for (const int number : workload.machines[i].stages) {
      stages_[number].number = number;
      stages_[number].places.push_back(nodes_.back());
    }
  }
  for (auto& [number, stage] : stages_)
    stage.parts = parts_of(stage);
}

std::string Machines::text() const {
  std::string text = fmt::format("{} stages", workload_.stages);
  for (const Machine& machine : workload_.machines)
    text += fmt::format("; a machine for stages [{}]{}, {} rows at a time",
                        fmt::join(machine.stages, " "), machine.drafts ? " and the draft" : "",
                        machine.piece_rows);
  return text;
}

std::shared_ptr<nodes::RemoteStageParts> Machines::parts_of(Stage& stage) {
  auto parts = std::make_shared<nodes::RemoteStageParts>();
  parts->heartbeat = workload_.faults.heartbeat;
  parts->retry_pause = workload_.faults.restart_pause_max / 4;
  parts->patience = workload_.faults.stage_patience;
  for (std::size_t i = 0; i < stage.places.size(); ++i)
    parts->places.push_back(stage.places[i]->place(
        stage.number, {[this, &stage, i] { answered(stage, i); },
                       [memory = parts->memory] { return memory->absence.since().has_value(); }}));
  return parts;
}

void Machines::connect(SimulatedEngine::Options& options) {
  if (draft_)
    options.remote = [this](auto host) { return draft_->draft(std::move(host)); };
  options.stage = [this](int number) -> std::shared_ptr<nodes::RemoteStageParts> {
    const auto found = stages_.find(number);
    return found == stages_.end() ? nullptr : found->second.parts;
  };
}

base::Duration Machines::gone_for(const Stage& stage) const {
  const auto since = stage.parts->memory->absence.since();
  return since ? ground_.system.now() - *since : base::Duration{};
}

/// A machine is there with its layers. Where it was gone for so long that nobody waits any more,
/// nobody must have: passes wait for the first stage of those that are gone, so this is known of
/// the only one.
void Machines::answered(Stage& stage, std::size_t place) {
  const base::Duration gone = gone_for(stage);
  if (stage.was_there && gone > 0s)
    reached(gone > workload_.faults.stage_patience ? "stage back behind the patience"
                                                   : "stage back within the patience");
  if (place > 0)
    reached("reserve took the stage");
  stage.was_there = true;
  if (stages_.size() > 1 || ground_.faults->plan().delays() ||
      gone < workload_.faults.stage_patience + to_fail)
    return;
  if (const int open = open_since_(ground_.system.now() - gone))
    report_.failures.push_back(fmt::format("{} requests still wait for a stage that is gone for "
                                           "{:.1f} s",
                                           open, base::seconds(gone)));
}

/// A node that answers may be heard of much later, where what it says is held up.
void Machines::note_long_absences() {
  for (auto& [number, stage] : stages_)
    stage.out_of_patience |= gone_for(stage) > workload_.faults.stage_patience;
}

void Machines::sees(const actors::Arrival& arrival) {
  note_long_absences();
  if (std::string_view(arrival.name) == nodes::RemoteStage::name) {
    Seen& seen = seen_[arrival.receiver->id()];
    seen.passes += as<messages::StageArrived>(arrival) != nullptr;
    const auto* done = as<messages::StageDone>(arrival);
    if (!done)
      return;
    seen.pieces = done->piece + 1;
    if (seen.pieces > seen.passes)
      reached("pass in several pieces");
  }
  if (const auto* verdicts = as<scheduling::Verdicts>(arrival))
    if (verdicts->error && verdicts->error->message.find(
                               "where a stage of the target is, was lost") != std::string::npos)
      reached("stage lost with a pass under way");
}

void Machines::sees(speculation::SequenceId request, const Finished& end) {
  const auto says = [&end](std::string_view what) {
    return end.error->message.find(what) != std::string::npos;
  };
  if (!end.error || !says(stage_gone) || says("it has not said that it has the stage"))
    return; // a node that is there, and takes long to load, is not gone
  reached("request given up behind the patience");
  for (const auto& [number, stage] : stages_)
    if (stage.out_of_patience)
      return;
  report_.failures.push_back(
      fmt::format("request {} was given up ({}), though no stage was gone for so long", request,
                  end.error->message));
}

void Machines::check_settled(bool lives) {
  int engines = 0;
  for (const auto& node : nodes_) {
    node->check_settled(report_.failures);
    engines += node->engines();
  }
  if (engines > links())
    report_.failures.push_back(
        fmt::format("the engine is served {} times, and needs {}", engines, links()));
  for (const auto& [number, stage] : stages_)
    if (lives && is_gone(stage))
      report_.failures.push_back(fmt::format("stage {} does not come back", number));
    else if (lives && stage.parts->memory->place % stage.places.size() > 0)
      reached("reserve has the stage at the end");
  for (const auto& [actor, seen] : seen_)
    if (ground_.faults->count() == 0 && seen.passes > seen.pieces)
      reached("pass that ended before it was sent");
}

void Machines::end() {
  for (const auto& node : nodes_)
    node->end();
}

void Machines::check_gone() {
  for (const auto& node : nodes_)
    node->check_gone(report_.failures);
}

} // namespace paceline::testing
