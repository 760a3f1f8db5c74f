#include "gpu/cuda/group_lane.hpp"

#include "gpu/cuda/exchange.hpp"
#include "gpu/cuda/lane.hpp"
#include "gpu/cuda/marks.hpp"
#include "gpu/cuda/operations.hpp"
#include "gpu/cuda/piece_clock.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace paceline::gpu::cuda {
namespace {

/// A GPU's part of the lane. It must be made with the GPU current.
struct Part {
  Part(std::shared_ptr<Context> on, int priority, FastPath fast, std::set<int> sum_peers)
      : context(std::move(on)), stream(make_stream(priority)),
        operations(context, stream.get(), std::move(fast), std::move(sum_peers)) {}

  void make_current() const { PACELINE_CUDA_CHECK(cudaSetDevice(context->index())); }
  Place place() const { return {context->index(), stream.get()}; }

  std::shared_ptr<Context> context;
  Stream stream;
  CudaOperations operations;
};
using Parts = std::vector<std::unique_ptr<Part>>;

std::vector<Place> places_of(const Parts& parts) {
  std::vector<Place> places;
  for (const auto& part : parts)
    places.push_back(part->place());
  return places;
}

/// An executor that records each shard's piece completely before it enqueues any of it, so that one
/// thread suffices: it enqueues each shard's calls before a meeting, then the meeting, and so on.
class GroupExecutor final : public Executor {
public:
  GroupExecutor(std::string name, Parts parts, std::optional<Nccl> nccl)
      : name_(std::move(name)), nccl_(nccl), parts_(std::move(parts)),
        rendezvous_(places_of(parts_)), exchanger_(make_exchanger(nccl_, places_of(parts_))) {}

  void enter() override {
    (void)cudaSetDevice(parts_.front()->context->index());
    prepare_lane_thread(name_);
  }
  void begin_step(const Step& step) override { step_.emplace(step.name()); }
  void end_step() override { step_.reset(); }

  void launch(Step& step, const Work& work) override {
    for (const auto& part : parts_)
      if (part->context->lost())
        throw std::runtime_error(part->context->lost_error().text());
    if (!exchanger_)
      exchanger_ = make_exchanger(nccl_, places_of(parts_));
    const Range piece(to_string(work.kind), work.rows);
    at_work_ = std::span(parts_).first(step.in_shards() ? parts_.size() : 1);
    record(step);
    enqueued_ = true;
    enqueue();
    clock_.launch(work, PieceClock::Clock::now());
  }

  /// Polls all parts each time, so that a failure is seen though others wait for that part forever.
  void finish() override {
    const auto at_work = [](const auto& part) { return !part->operations.is_done(); };
    for (Pause pause(clock_.left(PieceClock::Clock::now()));
         std::count_if(at_work_.begin(), at_work_.end(), at_work) > 0;) {
      exchanger_->check();
      pause.rest();
    }
    for (const auto& part : at_work_)
      part->operations.give_results();
    clock_.finish(PieceClock::Clock::now());
    enqueued_ = false;
  }

  void abandon() noexcept override {
    if (std::exchange(enqueued_, false) && exchanger_) {
      exchanger_->abandon();
      exchanger_.reset();
    }
    for (const auto& part : parts_) {
      (void)cudaSetDevice(part->context->index());
      part->operations.abandon();
      part->context->examine();
    }
    clock_.abandon();
  }

private:
  void record(Step& step) {
    for (std::size_t i = 0; i < at_work_.size(); ++i) {
      CudaOperations& operations = at_work_[i]->operations;
      at_work_[i]->make_current();
      if (step.in_shards())
        operations.begin_shard(int(i));
      else
        operations.begin();
      step.run(operations);
    }
  }

  void enqueue() {
    const std::size_t meetings = at_work_.front()->operations.meetings().size();
    for (std::size_t meeting = 0; meeting <= meetings; ++meeting) {
      for (const auto& part : at_work_) {
        part->make_current();
        part->operations.send_part(meeting);
      }
      if (meeting < meetings)
        meet(meeting);
    }
  }

  void meet(std::size_t meeting) {
    exchanges_.clear();
    for (const auto& part : at_work_) {
      exchanges_.push_back(part->operations.meetings().at(meeting));
      if (exchanges_.back().count != exchanges_.front().count)
        throw std::logic_error("shards that meet for different sums");
    }
    if (exchanges_.front().count > 0)
      exchanger_->exchange(exchanges_);
    else if (exchanges_.size() > 1)
      rendezvous_.meet();
  }

  const std::string name_;
  const std::optional<Nccl> nccl_;
  Parts parts_;
  Rendezvous rendezvous_;
  std::unique_ptr<Exchanger> exchanger_; ///< Null: something failed since it was made.
  std::span<const std::unique_ptr<Part>> at_work_;
  std::vector<Exchange> exchanges_;
  bool enqueued_ = false;
  PieceClock clock_;
  std::optional<Range> step_;
};

std::string names_of(const std::vector<GroupMember>& members) {
  std::string names;
  for (const GroupMember& member : members)
    names += (names.empty() ? "" : ", ") + member.context->name();
  return names;
}

std::set<int> devices_of(const std::vector<GroupMember>& members) {
  std::set<int> devices;
  for (const GroupMember& member : members)
    devices.insert(member.context->index());
  return devices;
}

} // namespace

Result<std::unique_ptr<Lane>> open_group_lane(std::vector<GroupMember> members,
                                              const std::string& role,
                                              const std::optional<Nccl>& nccl,
                                              ThreadLaneOptions options) {
  try {
    Parts parts;
    const std::set<int> writers = nccl ? devices_of(members) : std::set<int>{};
    const CurrentDevice kept(members.front().context->index());
    for (GroupMember& member : members) {
      auto fast = open_fast_path(*member.context, std::move(member.products));
      if (!fast)
        return tl::unexpected(fast.error());
      const CurrentDevice current(member.context->index());
      parts.push_back(
          std::make_unique<Part>(member.context, priority_of(role), std::move(*fast), writers));
    }
    auto executor = std::make_unique<GroupExecutor>(options.name, std::move(parts), nccl);
    return make_thread_lane(std::move(options), std::move(executor));
  } catch (const std::system_error&) {
    return fail(ErrorCode::unavailable, "cannot start a lane's thread",
                "raise the limit of processes");
  } catch (const std::runtime_error& e) { // CUDA's or NCCL's.
    for (const GroupMember& member : members)
      member.context->examine();
    return fail(ErrorCode::unavailable,
                fmt::format("cannot open a stream on each of {}: {}", names_of(members), e.what()),
                "see nvidia-smi, run with NCCL_DEBUG=WARN, or use other devices");
  }
}

} // namespace paceline::gpu::cuda
