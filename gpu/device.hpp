// Devices, opened by name at run time.
#pragma once

#include "base/clock.hpp"
#include "base/log.hpp"
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

/// Multiprocessors of a GPU, by number, both included.
struct Multiprocessors {
  int first = 0;
  int last = 0; ///< Behind the GPU's last one: up to that.
};
std::string to_string(Multiprocessors those); ///< As in a device's name: "0-15", "16-".

/// A parsed device name: "cpu", "cpu:0-3", "cpu:0,2", "cuda:1", "cuda:0/0-15", "cuda:0/16-",
/// "sim:chinchilla-70b", "sim:14.1ms".
struct DeviceName {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> cores; ///< cpu: logical cores; empty: all that the process may use.
  int index = 0;          ///< cuda: the device's number.
  std::optional<Multiprocessors> multiprocessors; ///< cuda: those that it works on; none: all.
  std::string profile; ///< sim: the name, file or latencies of its profile.
};
Result<DeviceName> parse_device(std::string_view name);

struct DeviceOptions {
  int threads = 0; ///< CPU lane's team; 0: one per physical core among the device's cores.
  std::shared_ptr<base::Timekeeper> time; ///< Required.
  std::shared_ptr<base::Trace> trace;     ///< May be null.
  base::Log log = {};
};

struct DeviceMemory {
  std::size_t total = 0;
  std::size_t available = 0;
};

/// How the devices of a group work on a pass: all at once, each on a part of every layer, or one
/// after the other, each on layers of its own.
enum class GroupWork { together, in_turn };

/// A device with memory and lanes. All members may be called from any thread.
class Device {
public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;   ///< "cpu:0-1"
  virtual const std::string& kernel() const = 0; ///< "amx", "highway", "scalar"; sim: its profile
  virtual DeviceMemory memory() const = 0;

  /// Returns whether `allocate` gives host memory, which the host and other such devices use
  /// directly.
  virtual bool on_host() const { return true; }
  /// Returns whether the work of one lane lengthens that of another beside it.
  virtual bool lanes_compete() const { return true; }
  /// Returns whether the device is on another machine: weights, pages, lanes and what memory()
  /// tells are there, while `allocate` gives memory of this host, for data that crosses.
  virtual bool elsewhere() const { return false; }

  virtual Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) = 0;
  /// Allocates memory that this device's lanes, the host and all other devices' lanes use; slower.
  virtual Result<std::shared_ptr<Buffer>> allocate_shared(std::size_t bytes) {
    return allocate(bytes);
  }
  /// Allocates memory on this device that lanes of `others` read and write directly; null if one of
  /// them cannot.
  virtual Result<std::shared_ptr<Buffer>>
  allocate_reached_by(std::span<const Device* const> /*others*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  /// Packs matrices, one below the other (equal columns), into one weight. The sources may be
  /// dropped afterwards. Weights of f16 are kept so that products are exact (never cut to bf16),
  /// and blocks of GGUF files as they are, also if matrices have different ones.
  virtual Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) = 0;
  /// Returns whether products round rows to 8 bits where HostMatrix::int8_rows asks for it.
  virtual bool rounds_to_int8() const { return true; }
  /// Returns whether 8 bits have been measured to be faster: for rows, from one on, before products
  /// with integers, and for keys and values of long texts.
  virtual bool faster_in_int8() const { return false; }
  /// Prepares Operations::linear_fast of lanes that are opened from now on, for products of up to
  /// `rows` rows with these weights and others of the same shapes. Tests that each row of a product
  /// has the same bits whatever the other rows are. Errors: the device has no such products, or
  /// something that they need is missing.
  virtual Result<void> prepare_fast_products(std::span<const std::shared_ptr<const Weight>> weights,
                                             int rows);
  /// Copies host floats into device memory (norm weights, tables).
  virtual Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) = 0;
  /// Fails if the device has no attention kernel for heads of so many dimensions.
  virtual Result<void> check_heads(int /*head_dim*/) const { return {}; }
  /// Returns the devices of a group, each with a shard of the model, or a stage; empty for a single
  /// device.
  virtual std::span<const std::shared_ptr<Device>> shards() const { return {}; }
  /// Makes one device of two or more, of which this is the first. Its lanes have the threads and
  /// queues of all of them (Step::in_shards). Weights and pages lie with its shards, all other
  /// memory with the first, where the others reach it. Errors: the devices are of different kinds,
  /// or this one supports no groups.
  virtual Result<std::shared_ptr<Device>>
  make_group(std::span<const std::shared_ptr<Device>> shards,
             GroupWork work = GroupWork::together) const;
  /// Opens a lane. role: "target" or "draft", for traces and for sim profiles.
  virtual Result<std::unique_ptr<Lane>> open_lane(std::string role) = 0;
};

/// Returns whether lanes of one use what the other allocates: both are on the host, or are one GPU
/// or parts of it.
bool share_memory(const Device& one, const Device& other);

/// Allocates memory that lanes of both devices use (both may be the same device). It lies with the
/// reader if the writer can reach it there.
Result<std::shared_ptr<Buffer>> allocate_between(Device& writer, Device& reader, std::size_t bytes);

/// Opens a device. Errors: it is unknown, has no driver, or names cores that do not exist.
Result<std::shared_ptr<Device>> open_device(std::string_view name, const DeviceOptions& options);

} // namespace paceline::gpu
