// Devices by name, chosen at run time.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/lane.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::gpu {

enum class DeviceKind { cpu, cuda, sim };

/// A parsed device name: "cpu", "cpu:0-3", "cpu:0,2", "cuda:1", "sim:chinchilla-70b", "sim:14.1ms".
struct DeviceName {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> cores; ///< cpu: logical cores; empty: all that the process may use.
  int index = 0;          ///< cuda
  std::string profile;    ///< sim
};
Result<DeviceName> parse_device(std::string_view name);

struct DeviceOptions {
  int threads = 0; ///< CPU lane's team; 0: one per physical core among the device's cores.
  std::shared_ptr<base::Timekeeper> time; ///< Required.
  std::shared_ptr<base::Trace> trace;     ///< May be null.
};

struct DeviceMemory {
  std::size_t total = 0;
  std::size_t available = 0;
};

/// Threads: all members from any thread.
class Device {
public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;   ///< "cpu:0-1"
  virtual const std::string& kernel() const = 0; ///< "amx", "highway", "scalar"; sim: its profile
  virtual DeviceMemory memory() const = 0;

  /// Whether what it allocates is the host's memory, which the host and other such devices use.
  virtual bool on_host() const { return true; }
  /// Whether it is another machine's: weights, pages and lanes are there, memory() too, and what it
  /// allocates is memory of this host, for what crosses.
  virtual bool elsewhere() const { return false; }

  virtual Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) = 0;
  /// Memory that its lanes, the host, and the lanes of every other device use; slower.
  virtual Result<std::shared_ptr<Buffer>> allocate_shared(std::size_t bytes) {
    return allocate(bytes);
  }
  /// Memory of its own that lanes of these others read and write directly; null where one of them
  /// cannot.
  virtual Result<std::shared_ptr<Buffer>>
  allocate_reached_by(std::span<const Device* const> /*others*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  /// Packs matrices, one below the other (equal columns), into one weight. The sources may be
  /// dropped afterwards. Weights of f16 are kept so that products are exact (never cut to bf16).
  virtual Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) = 0;
  /// Whether it packs blocks of GGUF files as they are (HostMatrix::blocks), and matrices of unlike
  /// ones together.
  virtual bool packs_gguf_blocks() const { return true; }
  /// Readies Operations::linear_fast of lanes that are opened from now on, for products of up to
  /// `rows` rows with these weights and others of their shapes. Tests that every product's rows
  /// have the same bits whatever else it has. Errors: the device has no such products, or something
  /// that they need is missing.
  virtual Result<void> prepare_fast_products(std::span<const std::shared_ptr<const Weight>> weights,
                                             int rows);
  /// Copies host floats into device memory (norm weights, tables).
  virtual Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) = 0;
  /// Fails where its attention has no kernel for heads of so many dimensions.
  virtual Result<void> check_heads(int /*head_dim*/) const { return {}; }
  /// The devices of a group, each with a shard of what is on it; empty: it is a device by itself.
  virtual std::span<const std::shared_ptr<Device>> shards() const { return {}; }
  /// A device out of these, two or more of which this is the first: its lanes have the threads and
  /// the queues of all of them (Step::in_shards). Weights and pages lie with its shards, all other
  /// memory with the first, where the others reach it. Errors: they are not of one kind, or it
  /// knows no groups.
  virtual Result<std::shared_ptr<Device>>
  make_group(std::span<const std::shared_ptr<Device>> shards) const;
  /// A new lane. role: "target" or "draft", for traces and for sim profiles.
  virtual Result<std::unique_ptr<Lane>> open_lane(std::string role) = 0;
};

/// Memory that lanes of both devices use, who may be one. It lies with the reader where the writer
/// reaches it there.
Result<std::shared_ptr<Buffer>> allocate_between(Device& writer, Device& reader, std::size_t bytes);

/// Unknown devices, absent drivers and cores that do not exist are errors that say so.
Result<std::shared_ptr<Device>> open_device(std::string_view name, const DeviceOptions& options);

} // namespace paceline::gpu
