#include "tests/simulation/simulated_node.hpp"

#include "actors/limits.hpp"
#include "models/synthetic/scripted.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using messages::Connected;

constexpr std::size_t kv_memory_bytes = std::size_t(1) << 20;
constexpr const char* draft_identity = "the draft";

Connected no_connection(const char* why) {
  return {nullptr, {ErrorCode::unavailable, why, ""}};
}

void tell_engine(const caf::actor_addr& engine, const Connected& news) {
  if (const auto alive = caf::actor_cast<caf::actor>(engine))
    caf::anon_send(alive, news);
}

} // namespace

SimulatedNode::SimulatedNode(Ground& ground, const Workload& workload, std::uint64_t seed,
                             std::map<std::string, int>& counts)
    : ground_(ground), time_(ground.time), faults_(ground.faults), workload_(workload), seed_(seed),
      counts_(counts), random_(seed ^ 0x77697265) {
  constexpr base::Duration delays[] = {20us, 200us, 1ms, 5ms};
  delay_ = delays[random_() % std::size(delays)];
  begin(Has::draft);
}

actors::RemoteDraftParts SimulatedNode::parts(std::shared_ptr<gpu::Device> host) {
  actors::RemoteDraftParts parts;
  parts.name = "node://simulated";
  parts.connect = [node = shared_from_this()](caf::actor_system&, const caf::actor& self) {
    node->connect(self.address());
  };
  parts.hello.model = "draft";
  parts.hello.identity = draft_identity;
  parts.hello.vocabulary = workload_.target.vocabulary;
  parts.hello.max_model_len = workload_.max_model_len;
  parts.hello.max_num_seqs = workload_.max_num_seqs;
  parts.hello.fork_rows = speculation::limits::fork_rows_max;
  parts.heartbeat = workload_.faults.heartbeat;
  parts.top_k = seed_ % 2 ? 64 : 0;
  parts.host = std::move(host);
  return parts;
}

void SimulatedNode::log(const std::string& line) {
  if (faults_->log)
    faults_->log("node: " + line);
}

void SimulatedNode::reached(const char* what) {
  ++counts_[what];
  log(what);
}

// ---- the machine ----

std::shared_ptr<gpu::Device> SimulatedNode::device() {
  return make_faulty_device({ground_.time,
                             ground_.faults,
                             workload_.draft_step,
                             seed_ * 3 + 1 + 1000 * life_,
                             workload_.queues,
                             false,
                             false,
                             1,
                             {}});
}

void SimulatedNode::begin(Has what) {
  ++life_;
  log(fmt::format("life {} begins", life_));
  parts_ = std::make_shared<actors::NodeParts>();
  lives_.push_back(parts_);
  parts_->host = device();
  parts_->closer = ground_.closer;
  parts_->telemetry = std::make_shared<base::Telemetry>();
  parts_->telemetry->time = ground_.time;
  parts_->time = ground_.time;
  parts_->kv_memory_bytes = kv_memory_bytes;
  parts_->page_tokens = workload_.page_tokens;
  const auto on = device();
  parts_->devices.push_back({"sim", on});
  if (what == Has::nothing)
    return;
  actors::NodeParts::Offer offer;
  offer.model.device = on;
  offer.model.model = models::make_scripted(workload_.draft(), on).value();
  offer.info.device = "sim";
  offer.info.max_model_len = workload_.max_model_len;
  offer.identity = what == Has::draft ? draft_identity : "another model";
  parts_->offers.push_back(std::make_shared<const actors::NodeParts::Offer>(std::move(offer)));
}

void SimulatedNode::die(base::Duration pause, Has then) {
  if (!parts_)
    return; // it is dead
  log("dies");
  std::exchange(parts_, nullptr)->close();
  after(pause, [node = shared_from_this(), then] {
    if (!node->ended_)
      node->begin(then);
  });
}

/// Whoever has lost its engine without hearing of it has found that out.
void SimulatedNode::check_settled(std::vector<std::string>& failures) {
  failures.insert(failures.end(), failures_.begin(), failures_.end());
  if (const int engines = parts_ ? parts_->survey().engines : 0; engines > 1)
    failures.push_back(fmt::format("the node drafts for {} engines, and there is one", engines));
}

void SimulatedNode::end() {
  ended_ = true;
  if (parts_)
    std::exchange(parts_, nullptr)->close();
}

void SimulatedNode::check_gone(std::vector<std::string>& failures) const {
  const auto alive =
      std::ranges::count_if(lives_, [](const auto& life) { return !life.expired(); });
  if (alive > 0)
    failures.push_back(fmt::format("{} of a node's {} lives are still held", alive, lives_.size()));
}

// ---- the way ----

void SimulatedNode::after(base::Duration delay, std::function<void()> then) {
  time_->after(delay, std::move(then));
}

/// What would arrive while nothing gets through comes when it does again.
base::TimePoint SimulatedNode::arrival(LinkEnd from) {
  const base::Duration jitter = uniform() < 0.9 ? delay_ / 10 : 3 * delay_;
  const auto usual = delay_ + base::from_seconds(base::seconds(jitter) * uniform());
  return std::max({now(), parted_until_[from == LinkEnd::node], frozen_until_}) + usual;
}

std::size_t SimulatedNode::comes_apart(std::size_t bytes) {
  return uniform() < 0.8 ? bytes : 1 + random_() % bytes;
}

std::optional<std::size_t> SimulatedNode::cut_within(std::size_t bytes) {
  misfortune();
  if (!faults_->strikes(&FaultPlan::cut))
    return std::nullopt;
  const std::size_t remains = random_() % (bytes + 1);
  reached(remains > 0 && remains < bytes ? "connection cut in a frame"
                                         : "connection cut between frames");
  return remains;
}

void SimulatedNode::misfortune() {
  FaultSource& f = *faults_;
  if (f.strikes(&FaultPlan::parted))
    part();
  if (f.strikes(&FaultPlan::half_open))
    leave_half_open();
  if (f.strikes(&FaultPlan::frozen))
    frozen_until_ = now() + f.delay(10s);
  if (f.strikes(&FaultPlan::rebooted))
    die(f.delay(4s), Has::draft);
  if (f.strikes(&FaultPlan::exchanged)) {
    die(f.delay(2s), uniform() < 0.5 ? Has::another_model : Has::nothing);
    after(4s + f.delay(4s), [node = shared_from_this()] { node->die(1s, Has::draft); });
  }
}

void SimulatedNode::part() {
  const base::TimePoint until = now() + faults_->delay(10s);
  const double which = uniform();
  if (which < 0.7)
    parted_until_[0] = until;
  if (which > 0.3)
    parted_until_[1] = until;
  reached(which < 0.7 && which > 0.3 ? "parted both ways" : "parted one way");
}

/// The node has lost its power, or what lies between has forgotten the connections.
void SimulatedNode::leave_half_open() {
  const bool power = uniform() < 0.5;
  for (const auto& each : std::exchange(wires_, {}))
    if (const auto wire = each.lock())
      power ? wire->vanish(LinkEnd::node) : wire->forget();
  reached(power ? "half open for the engine" : "half open for both");
  if (power)
    die(faults_->delay(4s), Has::draft);
}

/// A machine that stands still takes connections, for its kernel does.
void SimulatedNode::connect(const caf::actor_addr& engine) {
  const base::Duration parted = std::max(parted_until_[0], parted_until_[1]) - now();
  if (parted > actors::limits::connect_timeout) {
    reached("nobody answered");
    return after(actors::limits::connect_timeout,
                 [engine] { tell_engine(engine, no_connection("nobody answers")); });
  }
  after(std::max(parted, base::Duration::zero()) + 2 * delay_,
        [node = shared_from_this(), engine] { node->answer(engine); });
}

void SimulatedNode::answer(const caf::actor_addr& engine) {
  const auto owner = caf::actor_cast<caf::actor>(engine);
  if (!owner)
    return;
  if (!parts_) {
    reached("connection refused");
    return tell_engine(engine, no_connection("connection refused"));
  }
  auto& system = ground_.system.system();
  const caf::actor guest = parts_->welcome(system, parts_);
  if (!guest)
    return tell_engine(engine, no_connection("too many guests"));
  reached("connections");
  if (parts_->offers.empty() || parts_->offers.front()->identity != draft_identity)
    reached("refused by a node with another model");
  const auto wire = wire_to(owner);
  wire->spawn_link(system, LinkEnd::node, guest);
  tell_engine(engine, Connected{wire->spawn_link(system, LinkEnd::engine, owner), {}});
}

/// What the engine hears of its end, it acts on at once, unless its messages are late themselves.
std::shared_ptr<SimulatedWire> SimulatedNode::wire_to(const caf::actor& engine) {
  const auto gone = std::make_shared<bool>(false);
  engine->attach_functor([gone] { *gone = true; });
  const bool at_once = !faults_->plan().delays() && faults_->plan().late == 0;
  auto wire = std::make_shared<SimulatedWire>(
      shared_from_this(), [node = shared_from_this(), gone, at_once] {
        if (at_once)
          node->after(10ms, [node, gone] {
            if (!*gone)
              node->failures_.push_back("the engine goes on with a connection that is lost");
          });
      });
  wires_.push_back(wire);
  return wire;
}

} // namespace paceline::testing
