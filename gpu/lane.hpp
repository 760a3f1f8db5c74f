// A lane: one device execution queue, in order, asynchronous.
#pragma once

#include "base/clock.hpp"
#include "gpu/operations.hpp"
#include "paceline/error.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::gpu {

/// What a piece of a step is, for simulated latencies and traces.
struct Work {
  enum class Kind { prefill, decode, draft, verify } kind = Kind::decode;
  int rows = 0; ///< Rows through the model (verify: rows judged).
  int sequences = 0;
  int context = 0; ///< Longest position touched.
  /// Positions whose keys and values are read: once for a sequence's window, whatever its rows,
  std::int64_t decode_reads = 0;
  std::int64_t prompt_reads = 0; ///< and once for each row of a prompt.
};
const char* to_string(Work::Kind kind) noexcept;

/// How a step ended.
struct Retirement {
  bool completed = false;     ///< False: abandoned with its lane, or it threw.
  std::optional<Error> error; ///< Why not.
  base::TimePoint begin;      ///< First piece began.
  base::TimePoint end;        ///< Last piece ended.
  base::Duration busy{};      ///< Time in pieces; end - begin less waiting.
};

/// One submission. It owns (by reference counts) all memory it touches; the lane drops it when it
/// has retired. A step is a series of pieces: the lane calls prepare, then run on every rank, then
/// complete, until prepare says done; then retire, once. All but run come from one thread at a
/// time, the lane's own; an exception from any of them retires the step with an error.
///
/// A lane whose device has a queue of its own (a GPU's stream) holds one piece ready behind the one
/// at work, where the step has one: the device then goes from one to the other without the host.
/// `prepare` is called when nothing is at work, `run` and `complete` once for each piece, in the
/// order in which pieces were prepared.
class Step {
public:
  enum class Next {
    ready,   ///< Run a piece.
    waiting, ///< Ask again shortly (the step bounds its own waiting).
    done,    ///< Nothing is left.
  };

  virtual ~Step() = default;
  virtual std::string name() const = 0; ///< For traces: "verify", "draft".
  virtual Next prepare(base::TimePoint now) = 0;
  /// Prepares the piece behind the one that was prepared last, whose results nobody has yet. False:
  /// there is none, or it has to know them; then `prepare` is asked when they are there.
  virtual bool prepare_behind(base::TimePoint /*now*/) { return false; }
  virtual Work work() const = 0; ///< Of the piece just prepared.
  /// On a lane that several devices have together (Device::shards): whether each of them runs its
  /// own part, with operations of its own (Operations::shards). Else their threads are one team, as
  /// on any other lane.
  virtual bool in_shards() const { return false; }
  virtual void run(Operations& operations) = 0;
  virtual void complete(base::TimePoint now) = 0;
  virtual void retire(const Retirement& how) = 0;
};

/// Threads: `submit` from any. The destructor lets the running piece end, retires everything that
/// is left as not completed, and joins.
class Lane {
public:
  virtual ~Lane() = default;
  /// False when the queue is full or the lane is closing; the step is then not retired.
  [[nodiscard]] virtual bool submit(std::shared_ptr<Step> step) = 0;
  /// A step is about to be submitted: threads that sleep for want of work may wake up, and look for
  /// it for a bounded time. A hint, which a lane without threads of its own need not take.
  virtual void rouse() {}
  virtual const std::string& name() const = 0; ///< For traces: "target cpu:0-1".
};

} // namespace paceline::gpu
