// NCCL's all-gather on emulated GPUs, as a library of its own that a program loads. As with the
// real one, a rank waits on its stream for all others, for ever where one does not come, until its
// communicator is aborted; one thread that has several ranks calls for them in one group; and where
// GPUs have a link those of one process use each other's buffers directly.
#include "tests/gpu/cuda_emulation/state.hpp"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

struct ncclComm;

namespace {

using ncclResult_t = int;
constexpr ncclResult_t ncclSuccess = 0;
constexpr ncclResult_t ncclUnhandledCudaError = 1;
constexpr ncclResult_t ncclInvalidArgument = 4;
constexpr ncclResult_t ncclInvalidUsage = 5;
constexpr int ncclFloat32 = 7;

/// All ranks of one communicator.
struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
};

/// One all-gather.
struct Gathering {
  std::vector<const void*> from;
  std::size_t here = 0; ///< Ranks whose streams have got to it,
  std::size_t left = 0; ///< and that have what they came for.
};

struct Call {
  ncclComm* comm;
  const void* from;
  void* to;
  std::size_t bytes;
  cudaStream_t stream;
};

thread_local int groups = 0;
thread_local std::vector<Call> calls;

} // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  std::size_t rank;
  std::size_t ranks;
  int device;
};

namespace {

/// False: aborted before the count got there.
bool wait_for(Clique& clique, std::unique_lock<std::mutex>& lock, const std::size_t& count,
              std::size_t all) {
  clique.changed.wait(lock, [&] { return clique.aborted || count == all; });
  return !clique.aborted;
}

void gather(Clique& clique, Gathering& gathering, const Call& call, std::size_t ranks) {
  std::unique_lock lock(clique.mutex);
  ++gathering.here;
  clique.changed.notify_all();
  if (!wait_for(clique, lock, gathering.here, ranks))
    return;
  lock.unlock();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::memcpy(static_cast<char*>(call.to) + rank * call.bytes, gathering.from[rank], call.bytes);
  lock.lock();
  ++gathering.left; // Nobody overwrites what another still reads.
  clique.changed.notify_all();
  (void)wait_for(clique, lock, gathering.left, ranks);
}

bool all_reach(const std::vector<Call>& group, const void* memory) {
  int linked = 0;
  if (cudaDeviceCanAccessPeer(&linked, 0, 1) != cudaSuccess || linked == 0)
    return true; // by way of the host
  for (const Call& call : group)
    if (!cuda_emulation::reaches(call.comm->device, memory))
      return false;
  return true;
}

ncclResult_t enqueue() {
  const std::vector<Call> group = std::move(calls);
  calls.clear();
  if (group.empty())
    return ncclSuccess;
  const std::size_t ranks = group.front().comm->ranks;
  auto gathering = std::make_shared<Gathering>();
  gathering->from.resize(ranks);
  for (const Call& call : group)
    gathering->from.at(call.comm->rank) = call.from;
  if (group.size() != ranks)
    return ncclInvalidUsage;
  for (const Call& call : group)
    if (!all_reach(group, call.from) || !all_reach(group, call.to))
      return ncclUnhandledCudaError;
  for (const Call& call : group)
    cuda_emulation::append(call.stream,
                           [=, clique = call.comm->clique, device = call.comm->device] {
                             if (!cuda_emulation::is_lost(device))
                               gather(*clique, *gathering, call, ranks);
                           });
  return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22703;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an emulated error of NCCL";
}

ncclResult_t ncclCommInitAll(ncclComm** comms, int count, const int* devices) {
  auto clique = std::make_shared<Clique>();
  for (int rank = 0; rank < count; ++rank) {
    if (cuda_emulation::is_lost(devices[rank]))
      return ncclUnhandledCudaError;
    for (int other = 0; other < rank; ++other)
      if (devices[other] == devices[rank])
        return ncclInvalidUsage;
    comms[rank] = new ncclComm{clique, std::size_t(rank), std::size_t(count), devices[rank]};
  }
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm* comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm* comm) {
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted = true;
  }
  comm->clique->changed.notify_all();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm*, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groups == 0)
    return ncclInvalidUsage;
  return --groups == 0 ? enqueue() : ncclSuccess;
}

/// Outside a group a thread that has all ranks would wait for itself.
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, int type, ncclComm* comm,
                           cudaStream_t stream) {
  if (groups == 0 && comm->ranks > 1)
    return ncclInvalidUsage;
  if (type != ncclFloat32 || cuda_emulation::device_of(stream) != comm->device)
    return ncclInvalidArgument;
  if (cuda_emulation::is_lost(comm->device))
    return ncclUnhandledCudaError;
  calls.push_back({comm, from, to, count * sizeof(float), stream});
  return ncclSuccess;
}
}
