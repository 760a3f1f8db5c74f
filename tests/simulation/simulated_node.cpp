#include "tests/simulation/simulated_node.hpp"

#include "models/synthetic/scripted.hpp"
#include "nodes/limits.hpp"
#include "speculation/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using messages::Connected;

constexpr std::size_t kv_memory_bytes = std::size_t(1) << 20;
constexpr const char* draft_identity = "the draft";
constexpr const char* target_identity = "the target";
constexpr const char* device_name = "sim";
/// Far less than a node's silence, by which it would be found out in any case.
constexpr int looks_max = 10;

Connected no_connection(const char* why) {
  return {nullptr, {ErrorCode::unavailable, why, ""}};
}

void tell_engine(const caf::actor_addr& engine, const Connected& news) {
  if (const auto alive = caf::actor_cast<caf::actor>(engine))
    caf::anon_send(alive, news);
}

} // namespace

SimulatedNode::SimulatedNode(Ground& ground, const Workload& workload, std::size_t number,
                             std::uint64_t seed, std::map<std::string, int>& counts)
    : ground_(ground), time_(ground.time), faults_(ground.faults), workload_(workload),
      machine_(workload.machines[number]), name_(fmt::format("node://simulated:{}", number)),
      seed_(seed + 7'000'000 * number), counts_(counts), random_(seed_ ^ 0x77697265) {
  constexpr base::Duration delays[] = {20us, 200us, 1ms, 5ms};
  delay_ = delays[random_() % std::size(delays)];
  begin(Has::all);
}

nodes::RemoteDraftParts SimulatedNode::draft(std::shared_ptr<gpu::Device> host) {
  nodes::RemoteDraftParts parts;
  parts.name = name_;
  parts.connect = [node = shared_from_this()](caf::actor_system&, const caf::actor& self) {
    node->connect(self.address(), {});
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

nodes::RemoteStageParts::Place SimulatedNode::place(int stage, StageDialler dialler) {
  nodes::RemoteStageParts::Place place;
  place.name = name_;
  place.connect = [node = shared_from_this(),
                   dialler = std::move(dialler)](caf::actor_system&, const caf::actor& self) {
    node->connect(self.address(), dialler);
  };
  place.hello.model = "target";
  place.hello.identity = target_identity;
  place.hello.layers = layers_of(stage);
  place.hello.page_tokens = workload_.page_tokens;
  place.hello.pages = workload_.pages;
  return place;
}

void SimulatedNode::log(const std::string& line) {
  if (faults_->log)
    faults_->log(name_ + ": " + line);
}

void SimulatedNode::reached(const char* what) {
  ++counts_[what];
  log(what);
}

// ---- the machine ----

std::shared_ptr<gpu::Device> SimulatedNode::device(base::Duration step, bool stands_still,
                                                   std::uint64_t salt) const {
  return make_faulty_device({ground_.time,
                             ground_.faults,
                             step,
                             seed_ * 3 + 1 + 1000 * life_ + 100'000 * salt,
                             workload_.queues,
                             false,
                             false,
                             stands_still,
                             1,
                             {}});
}

void SimulatedNode::begin(Has what) {
  ++life_;
  has_ = what;
  log(fmt::format("life {} begins", life_));
  parts_ = std::make_shared<nodes::NodeParts>();
  sessions_ = std::make_unique<nodes::NodeSessions>(parts_);
  lives_.push_back(parts_);
  parts_->host = device(workload_.draft_step);
  parts_->closer = ground_.closer;
  parts_->telemetry = std::make_shared<base::Telemetry>();
  parts_->telemetry->time = ground_.time;
  parts_->time = ground_.time;
  parts_->kv_memory_bytes = kv_memory_bytes;
  parts_->page_tokens = workload_.page_tokens;
  if (machine_.piece_rows > 0)
    parts_->piece_rows = machine_.piece_rows;
  parts_->devices.push_back({device_name, parts_->host});
  if (what == Has::nothing)
    return;
  if (machine_.drafts)
    parts_->offers.push_back(offer_draft());
  for (const int stage : machine_.stages)
    parts_->offers.push_back(offer_stage(stage));
}

SimulatedNode::OfferRef SimulatedNode::offer_draft() const {
  nodes::NodeParts::Offer offer;
  offer.model.device = device(workload_.draft_step, true);
  offer.model.model = models::make_scripted(workload_.draft(), offer.model.device).value();
  offer.info.device = device_name;
  offer.info.max_model_len = workload_.max_model_len;
  offer.identity = has_ == Has::another_model ? "another model" : draft_identity;
  return std::make_shared<const nodes::NodeParts::Offer>(std::move(offer));
}

SimulatedNode::OfferRef SimulatedNode::offer_stage(int stage) const {
  nodes::NodeParts::Offer offer;
  offer.model.device = device(workload_.target_step / workload_.stages, true, std::uint64_t(stage));
  offer.model.model = models::make_scripted_stage(workload_.target, {stage, 1, true},
                                                  workload_.stages, offer.model.device)
                          .value();
  offer.info.device = device_name;
  offer.info.max_model_len = workload_.max_model_len;
  offer.identity = has_ == Has::another_model ? "another model" : target_identity;
  offer.layers = layers_of(stage);
  if (has_ == Has::other_weights)
    offer.layers->weights = "others";
  return std::make_shared<const nodes::NodeParts::Offer>(std::move(offer));
}

messages::StageLayers SimulatedNode::layers_of(int stage) const {
  messages::StageLayers layers;
  layers.weights = "the weights";
  layers.first = stage;
  layers.count = 1;
  layers.max_positions = workload_.max_model_len;
  return layers;
}

void SimulatedNode::stop() {
  sessions_->close();
  sessions_ = nullptr;
  parts_ = nullptr;
}

void SimulatedNode::die(base::Duration pause, Has then) {
  if (!parts_)
    return; // it is dead
  log("dies");
  stop();
  after(pause, [node = shared_from_this(), then] {
    if (!node->ended_)
      node->begin(then);
  });
}

/// Whoever has lost its engine without hearing of it has found that out.
void SimulatedNode::check_settled(std::vector<std::string>& failures) {
  failures.insert(failures.end(), failures_.begin(), failures_.end());
  const int most = int(machine_.drafts) + int(machine_.stages.size());
  if (engines() > most)
    failures.push_back(fmt::format("the node serves {} engines, and there is one", engines()));
}

void SimulatedNode::end() {
  ended_ = true;
  if (parts_)
    stop();
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
    die(f.delay(4s), Has::all);
  if (f.strikes(&FaultPlan::exchanged)) {
    const double which = uniform();
    die(f.delay(2s), which >= 0.5                               ? Has::nothing
                     : which >= 0.25 || machine_.stages.empty() ? Has::another_model
                                                                : Has::other_weights);
    after(4s + f.delay(4s), [node = shared_from_this()] { node->die(1s, Has::all); });
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
    die(faults_->delay(4s), Has::all);
}

/// A machine that stands still takes connections, for its kernel does.
void SimulatedNode::connect(const caf::actor_addr& engine, const StageDialler& dialler) {
  const base::Duration parted = std::max(parted_until_[0], parted_until_[1]) - now();
  if (parted > nodes::limits::connect_timeout) {
    reached("nobody answered");
    return after(nodes::limits::connect_timeout,
                 [engine] { tell_engine(engine, no_connection("nobody answers")); });
  }
  after(std::max(parted, base::Duration::zero()) + 2 * delay_,
        [node = shared_from_this(), engine, dialler] { node->answer(engine, dialler); });
}

void SimulatedNode::answer(const caf::actor_addr& engine, const StageDialler& dialler) {
  const auto owner = caf::actor_cast<caf::actor>(engine);
  if (!owner)
    return;
  if (!parts_) {
    reached("connection refused");
    return tell_engine(engine, no_connection("connection refused"));
  }
  auto& system = ground_.system.system();
  const caf::actor session = sessions_->welcome(system);
  if (!session)
    return tell_engine(engine, no_connection("too many engines"));
  reached("connections");
  const bool stage = bool(dialler.answered);
  if (has_ == Has::other_weights && stage)
    reached("refused by a node with other weights");
  else if (has_ == Has::another_model || has_ == Has::nothing)
    reached("refused by a node with another model");
  else if (stage)
    dialler.answered();
  const auto wire = wire_to(owner, dialler.waits);
  wire->spawn_link(system, LinkEnd::node, session);
  tell_engine(engine, Connected{wire->spawn_link(system, LinkEnd::engine, owner), {}});
}

/// What the engine hears of its end, it acts on long before silence would tell it, unless its
/// messages are late themselves: who dialled ends, or lets go of the connection.
std::shared_ptr<SimulatedWire> SimulatedNode::wire_to(const caf::actor& engine,
                                                      const std::function<bool()>& let_go) {
  const auto gone = std::make_shared<bool>(false);
  engine->attach_functor([gone] { *gone = true; });
  const bool at_once = !faults_->plan().delays() && faults_->plan().late == 0;
  auto wire = std::make_shared<SimulatedWire>(
      shared_from_this(), [node = shared_from_this(), at_once,
                           has = [gone, let_go] { return *gone || (let_go && let_go()); }] {
        if (at_once)
          node->await_letting_go(has, looks_max);
      });
  wires_.push_back(wire);
  return wire;
}

/// A message takes as long as timers that overtake it: mostly none, and now and then several.
void SimulatedNode::await_letting_go(const std::function<bool()>& has, int looks) {
  if (has())
    return;
  if (looks > 0)
    return after(
        10ms, [node = shared_from_this(), has, looks] { node->await_letting_go(has, looks - 1); });
  log("the engine goes on with a connection that is lost");
  failures_.push_back("the engine goes on with a connection that is lost");
}

} // namespace paceline::testing
