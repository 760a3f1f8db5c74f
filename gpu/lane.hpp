// A lane: one device execution queue, in order and asynchronous.
#pragma once

#include "base/clock.hpp"
#include "gpu/operations.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::gpu {

/// The size of a piece of a step, for simulated latencies and traces.
struct Work {
  enum class Kind { prefill, decode, draft, verify } kind = Kind::decode;
  int rows = 0; ///< Rows through the model (verify: rows judged).
  int sequences = 0;
  int context = 0; ///< Longest position touched.
  /// Positions whose keys and values windows read: once for a sequence, whatever its rows.
  std::int64_t decode_reads = 0;
  std::int64_t prompt_reads = 0; ///< Positions read by each row of a prompt.
  double cache_width = 1; ///< Bytes of keys and values over those that a device's times are for.
};
const char* to_string(Work::Kind kind) noexcept;

/// How a step ended.
struct Retirement {
  bool completed = false;     ///< False: it was abandoned with its lane, or it threw.
  std::optional<Error> error; ///< The reason if not completed.
  base::TimePoint begin;      ///< Start of the first piece.
  base::TimePoint end;        ///< End of the last piece.
  base::Duration busy{};      ///< Time in pieces: end - begin without waiting.
};

/// One submission. It owns (by reference counts) all memory it touches; the lane drops it when it
/// has retired. A step is a series of pieces: the lane calls prepare, then run on every rank, then
/// complete, until prepare returns done; then it calls retire, once. All calls but run come from
/// one thread at a time, the lane's own; an exception from any of them retires the step with an
/// error.
///
/// A lane whose device has a queue of its own (a GPU's stream) keeps one more piece ready while one
/// runs, if the step has one; the device then goes from one to the next without the host. `prepare`
/// is called when no piece runs, `run` and `complete` once for each piece, in the order in which
/// pieces were prepared.
class Step {
public:
  enum class Next {
    ready,   ///< A piece is to be run.
    waiting, ///< Must be asked again shortly; the step bounds its own waiting.
    done,    ///< Nothing is left.
  };

  virtual ~Step() = default;
  virtual std::string name() const = 0; ///< Name in traces: "verify", "draft".
  virtual Next prepare(base::TimePoint now) = 0;
  /// Prepares the piece after the one that was prepared last, whose results are not known yet.
  /// Returns false if there is none, or if it needs these results; then `prepare` is called when
  /// they are there.
  virtual bool prepare_behind(base::TimePoint /*now*/) { return false; }
  virtual Work work() const = 0; ///< The size of the piece prepared last.
  /// Returns whether, on a lane of several devices (Device::shards), each device runs its own part
  /// with its own operations (Operations::shards). Otherwise the threads of all of them are one
  /// team, as on any other lane.
  virtual bool in_shards() const { return false; }
  virtual void run(Operations& operations) = 0;
  virtual void complete(base::TimePoint now) = 0;
  virtual void retire(const Retirement& how) = 0;
};

/// The queue. `submit` may be called from any thread. The destructor lets the running piece end,
/// retires all remaining steps as not completed, and joins.
class Lane {
public:
  virtual ~Lane() = default;
  /// Returns false when the queue is full or the lane is closing; the step is then not retired.
  [[nodiscard]] virtual bool submit(std::shared_ptr<Step> step) = 0;
  /// Tells that a step is about to be submitted: sleeping threads may wake up and look for it for a
  /// bounded time. It is a hint, which lanes without threads of their own ignore.
  virtual void rouse() {}
  virtual const std::string& name() const = 0; ///< Name in traces: "target cpu:0-1".
};

} // namespace paceline::gpu
