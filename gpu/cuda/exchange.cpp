#include "gpu/cuda/exchange.hpp"

#include <utility>

namespace paceline::gpu::cuda {
namespace {

std::vector<int> devices_of(const std::vector<Place>& places) {
  std::vector<int> devices;
  for (const Place& place : places)
    devices.push_back(place.device);
  return devices;
}

/// An exchange by ncclAllGather for all GPUs in one group, since one thread has all of them. NCCL
/// orders the streams itself. Within one process it lets GPUs that reach each other access each
/// other's buffers directly, so buffers from pools have to be open to all of them.
class ByNccl final : public Exchanger {
public:
  ByNccl(const Nccl& nccl, std::vector<Place> places)
      : nccl_(nccl), places_(std::move(places)), comms_(places_.size()) {
    const std::vector<int> devices = devices_of(places_);
    nccl_.check(nccl_.comm_init_all(comms_.data(), int(devices.size()), devices.data()),
                "ncclCommInitAll");
  }
  ~ByNccl() override {
    for (Nccl::Comm* comm : comms_)
      (void)nccl_.comm_destroy(comm);
  }
  ByNccl(const ByNccl&) = delete;
  ByNccl& operator=(const ByNccl&) = delete;

  void exchange(std::span<const Exchange> shards) override {
    nccl_.check(nccl_.group_start(), "ncclGroupStart");
    Nccl::Status status = Nccl::success;
    for (std::size_t i = 0; i < shards.size() && status == Nccl::success; ++i)
      status = nccl_.all_gather(shards[i].own, shards[i].all, shards[i].count, Nccl::float32,
                                comms_[i], places_[i].stream);
    const Nccl::Status ended = nccl_.group_end(); // A group that began ends in any case.
    nccl_.check(status, "ncclAllGather");
    nccl_.check(ended, "ncclGroupEnd");
  }

  void check() override {
    for (Nccl::Comm* comm : comms_) {
      Nccl::Status error = Nccl::success;
      nccl_.check(nccl_.comm_get_async_error(comm, &error), "ncclCommGetAsyncError");
      nccl_.check(error, "what NCCL enqueued");
    }
  }

  /// Aborts: a kernel of NCCL would wait for the others forever.
  void abandon() noexcept override {
    for (Nccl::Comm* comm : std::exchange(comms_, {}))
      (void)nccl_.comm_abort(comm);
  }

private:
  const Nccl nccl_;
  const std::vector<Place> places_;
  std::vector<Nccl::Comm*> comms_;
};

/// An exchange in which each GPU copies from the others when all are ready.
class ByCopies final : public Exchanger {
public:
  explicit ByCopies(std::vector<Place> places) : places_(places), rendezvous_(std::move(places)) {}

  void exchange(std::span<const Exchange> shards) override {
    rendezvous_.meet();
    for (std::size_t to = 0; to < shards.size(); ++to) {
      PACELINE_CUDA_CHECK(cudaSetDevice(places_[to].device));
      for (std::size_t from = 0; from < shards.size(); ++from)
        copy(shards, from, to);
    }
  }

private:
  void copy(std::span<const Exchange> shards, std::size_t from, std::size_t to) const {
    const std::size_t count = shards[to].count;
    PACELINE_CUDA_CHECK(cudaMemcpyPeerAsync(shards[to].all + from * count, places_[to].device,
                                            shards[from].own, places_[from].device,
                                            count * sizeof(float), places_[to].stream));
  }

  const std::vector<Place> places_;
  Rendezvous rendezvous_;
};

} // namespace

Rendezvous::Rendezvous(std::vector<Place> places) : places_(std::move(places)) {
  for (const Place& place : places_) {
    const CurrentDevice current(place.device);
    arrived_.push_back(make_event());
  }
}

void Rendezvous::meet() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    PACELINE_CUDA_CHECK(cudaSetDevice(places_[i].device));
    PACELINE_CUDA_CHECK(cudaEventRecord(arrived_[i].get(), places_[i].stream));
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    PACELINE_CUDA_CHECK(cudaSetDevice(places_[i].device));
    for (std::size_t other = 0; other < places_.size(); ++other)
      if (other != i)
        PACELINE_CUDA_CHECK(cudaStreamWaitEvent(places_[i].stream, arrived_[other].get(), 0));
  }
}

std::unique_ptr<Exchanger> make_exchanger(const std::optional<Nccl>& nccl,
                                          std::vector<Place> places) {
  if (nccl)
    return std::make_unique<ByNccl>(*nccl, std::move(places));
  return std::make_unique<ByCopies>(std::move(places));
}

} // namespace paceline::gpu::cuda
