#include "apps/laboratory/load/generator.hpp"

#include <algorithm>

namespace paceline::apps::load {
namespace {

/// The resolution of the clocks: a request is due if it would be at the next tick.
constexpr double tick_seconds = 1e-9;

/// Averages the lengths of queues over time.
class QueueWatch {
public:
  void note(double now, const TargetState& state) {
    if (!first_)
      first_ = last_ = now;
    waiting_ += was_.waiting * (now - last_);
    running_ += was_.running * (now - last_);
    last_ = now;
    was_ = state;
    lengths_.max_waiting = std::max(lengths_.max_waiting, state.waiting);
    lengths_.max_running = std::max(lengths_.max_running, state.running);
  }
  QueueLengths lengths() const {
    QueueLengths lengths = lengths_;
    if (first_ && last_ > *first_) {
      lengths.mean_waiting = waiting_ / (last_ - *first_);
      lengths.mean_running = running_ / (last_ - *first_);
    }
    return lengths;
  }

private:
  std::optional<double> first_;
  double last_ = 0;
  double waiting_ = 0;
  double running_ = 0;
  TargetState was_;
  QueueLengths lengths_;
};

TargetState growth(const TargetState& before, TargetState after) {
  after.preemptions -= before.preemptions;
  after.judged -= before.judged;
  after.accepted -= before.accepted;
  after.window_tokens -= before.window_tokens;
  for (std::size_t i = 0; i < before.accepted_by_position.size(); ++i)
    after.accepted_by_position[i] -= before.accepted_by_position[i];
  return after;
}

class Generator {
public:
  Generator(Target& target, const std::vector<Item>& items, const LoadOptions& options)
      : target_(target), items_(items), options_(options) {
    run_.records.resize(items.size());
  }

  Run run(const std::atomic<bool>& stopped) {
    target_.begin_run();
    target_.refresh_state();
    const auto before = target_.state();
    begin_ = target_.now();
    watch();
    while (ended_ < items_.size() && !stopped) {
      send_due();
      const auto until = next_arrival();
      const auto event = target_.next(until);
      if (event)
        take(*event);
      else if (!until && !stopped)
        break; // It will never answer.
    }
    run_.interrupted = stopped;
    if (sent_ > ended_)
      give_up();
    target_.refresh_state();
    watch();
    if (before) {
      run_.queues = queues_.lengths();
      run_.counters = growth(*before, *target_.state());
    }
    return std::move(run_);
  }

private:
  double now() const { return target_.now() - begin_; }
  bool room() const {
    return options_.max_concurrency == 0 || int(sent_ - ended_) < options_.max_concurrency;
  }

  void send_due() {
    for (; sent_ < items_.size() && room() && items_[sent_].arrival <= now() + tick_seconds;
         ++sent_) {
      Record& record = run_.records[sent_];
      record.state = Record::State::sent;
      record.sent = now();
      target_.send(sent_, items_[sent_]);
      run_.peak_sent = std::max(run_.peak_sent, int(sent_ + 1 - ended_));
    }
  }

  /// Returns the arrival of the next request, if it may be sent then.
  std::optional<double> next_arrival() const {
    if (sent_ == items_.size() || !room())
      return std::nullopt;
    return begin_ + items_[sent_].arrival;
  }

  void take(const Event& event) {
    Record& record = run_.records[event.item];
    const double at = event.seconds - begin_;
    if (event.kind == Event::Kind::tokens)
      add_part(record, at);
    else
      end(record, event, at);
    watch();
  }

  static void add_part(Record& record, double at) {
    if (record.parts++ == 0)
      record.first = at;
    else
      record.gaps.push_back(at - record.last);
    record.last = at;
  }

  void end(Record& record, const Event& event, double at) {
    const bool completed = event.kind == Event::Kind::done;
    if (completed && record.parts == 0) // All of the answer came with its end.
      add_part(record, at);
    record.state = completed ? Record::State::completed : Record::State::failed;
    record.ended = run_.seconds = at;
    record.prompt_tokens = event.prompt_tokens;
    record.output_tokens = event.output_tokens;
    record.rounds = event.rounds;
    record.reason = event.reason;
    ++ended_;
    if (options_.progress)
      options_.progress(ended_);
  }

  /// Cancels the requests that are still under way. Either this run was interrupted, or the target
  /// has forgotten them.
  void give_up() {
    run_.seconds = now();
    target_.cancel();
    if (run_.interrupted)
      return;
    for (Record& record : run_.records)
      if (record.state == Record::State::sent) {
        record.state = Record::State::failed;
        record.reason = "it was never answered";
      }
  }

  void watch() {
    if (const auto state = target_.state())
      queues_.note(now(), *state);
  }

  Target& target_;
  const std::vector<Item>& items_;
  const LoadOptions& options_;
  double begin_ = 0;
  Run run_;
  QueueWatch queues_;
  std::size_t sent_ = 0;  ///< Items before this one were sent.
  std::size_t ended_ = 0; ///< Number of requests that are over.
};

} // namespace

Run put_load(Target& target, const std::vector<Item>& items, const LoadOptions& options,
             const std::atomic<bool>& stopped) {
  return Generator(target, items, options).run(stopped);
}

} // namespace paceline::apps::load
