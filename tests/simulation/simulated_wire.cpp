#include "tests/simulation/simulated_wire.hpp"

#include "messages/caf.hpp"

#include <algorithm>
#include <utility>

namespace paceline::testing {
namespace {

/// Tells an end that there are more bytes.
struct BytesCame {};
/// Tells an end that there will be no more.
struct HungUp {};

} // namespace
} // namespace paceline::testing

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(paceline::testing::BytesCame)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(paceline::testing::HungUp)

namespace paceline::testing {

/// The socket of one end.
class SimulatedWire::End final : public nodes::Pipe {
public:
  End(std::shared_ptr<SimulatedWire> wire, LinkEnd end) : wire_(std::move(wire)), end_(end) {}
  ~End() override { wire_->close(end_); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  std::vector<char>& unsent() override { return unsent_; }
  void flush() override { wire_->send(end_, std::exchange(unsent_, {})); }
  void await(std::size_t bytes) override { wire_->at(end_).awaited = bytes; }
  void shut(bool both_ways) override {
    wire_->at(end_).reads = false;
    if (both_ways)
      wire_->close(end_);
  }

private:
  std::shared_ptr<SimulatedWire> wire_;
  LinkEnd end_;
  std::vector<char> unsent_;
};

caf::actor SimulatedWire::spawn_link(caf::actor_system& system, LinkEnd end,
                                     const caf::actor& owner) {
  const auto body = [](caf::event_based_actor* self, const std::shared_ptr<SimulatedWire>& wire,
                       LinkEnd which, const caf::actor& whose) -> caf::behavior {
    self->set_exception_handler([self](std::exception_ptr& why) {
      return messages::detail::died(self->system(), "link", why);
    });
    const auto link = nodes::make_link(self, std::make_unique<End>(wire, which), whose, which);
    const auto read = [=](const BytesCame&) {
      Side& side = wire->at(which);
      while (side.reads && side.arrived.size() >= side.awaited) {
        const auto until = side.arrived.begin() + std::ptrdiff_t(side.awaited);
        const std::vector<char> bytes(side.arrived.begin(), until);
        side.arrived.erase(side.arrived.begin(), until);
        link->received(bytes);
      }
    };
    return link->handlers().or_else(
        caf::message_handler{read, [=](const HungUp&) { link->closed(); }});
  };
  auto actor = system.spawn(body, shared_from_this(), end, owner);
  at(end).link = actor;
  // However it dies, its socket is closed.
  actor->attach_functor([wire = shared_from_this(), end] { wire->close(end); });
  return actor;
}

base::Duration SimulatedWire::time_to(LinkEnd end) {
  Side& side = at(end);
  side.last = std::max(side.last, way_->arrival(other(end)));
  return side.last - way_->now();
}

void SimulatedWire::send(LinkEnd from, std::vector<char> bytes) {
  if (cut_ || !at(from).link || bytes.empty())
    return;
  const auto remains = way_->cut_within(bytes.size());
  bytes.resize(remains.value_or(bytes.size()));
  while (!bytes.empty()) {
    const auto apart = bytes.begin() + std::ptrdiff_t(way_->comes_apart(bytes.size()));
    way_->after(time_to(other(from)),
                [wire = shared_from_this(), to = other(from),
                 piece = std::vector<char>(bytes.begin(), apart)] { wire->arrive(to, piece); });
    bytes.erase(bytes.begin(), apart);
  }
  if (!remains)
    return;
  cut_ = true;
  hang_up(LinkEnd::engine);
  hang_up(LinkEnd::node);
}

void SimulatedWire::arrive(LinkEnd end, const std::vector<char>& bytes) {
  Side& side = at(end);
  if (!side.link) {
    if (way_->is_up(end))
      hang_up(other(end));
    return;
  }
  side.arrived.insert(side.arrived.end(), bytes.begin(), bytes.end());
  caf::anon_send(side.link, BytesCame{});
}

/// An end hears that there is no more, behind what was sent before.
void SimulatedWire::hang_up(LinkEnd end) {
  way_->after(time_to(end), [wire = shared_from_this(), end] {
    if (!wire->at(end).link)
      return;
    caf::anon_send(wire->at(end).link, HungUp{});
    if (end == LinkEnd::engine)
      wire->ended_();
  });
}

void SimulatedWire::close(LinkEnd end) {
  Side& side = at(end);
  if (!std::exchange(side.link, nullptr))
    return;
  side.reads = false;
  side.arrived.clear();
  if (!cut_)
    hang_up(other(end));
}

void SimulatedWire::vanish(LinkEnd end) {
  Side& side = at(end);
  side.link = nullptr;
  side.reads = false;
  side.arrived.clear();
}

} // namespace paceline::testing
