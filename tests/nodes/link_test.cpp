// What a node's end of a connection holds for a session that does not come to it.
#include "nodes/link.hpp"

#include "actors/system/virtual_time.hpp"
#include "nodes/frames.hpp"
#include "nodes/limits.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace paceline;
using namespace paceline::nodes;
using messages::DraftWork;

namespace {

/// Tells the node's end that bytes came.
struct BytesCame {
  std::vector<char> bytes;
};

} // namespace

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(BytesCame)

namespace {

/// What the peer has been sent, and whether it is still heard.
struct Wire {
  std::vector<char> sent;
  bool reads = true;
};

class Socket final : public Pipe {
public:
  explicit Socket(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  std::vector<char>& unsent() override { return wire_->sent; }
  void flush() override {}
  void await(std::size_t) override {}
  void shut(bool) override { wire_->reads = false; }

private:
  std::shared_ptr<Wire> wire_;
};

/// A node's end, and a session that takes nothing until it is told to.
struct NodeEnd {
  NodeEnd() {
    system.system().spawn(
        [this](caf::event_based_actor* self, const caf::actor& owner) {
          const auto link = make_link(self, std::make_unique<Socket>(wire), owner, LinkEnd::node);
          end = caf::actor_cast<caf::actor>(self);
          return caf::behavior(link->handlers().or_else(
              caf::message_handler{[link](const BytesCame& came) { link->received(came.bytes); }}));
        },
        session);
    settle();
  }
  ~NodeEnd() {
    caf::anon_send_exit(session, caf::exit_reason::user_shutdown);
    settle();
    end = nullptr;
    session = nullptr;
  }
  void settle() {
    system.run_until([] { return false; }, system.now() + std::chrono::seconds(1));
  }
  template <class Value>
  void receive(const Value& value) {
    std::vector<char> bytes;
    append_frame(bytes, value);
    const auto content = bytes.begin() + frame_header_bytes;
    caf::anon_send(end, BytesCame{{bytes.begin(), content}});
    caf::anon_send(end, BytesCame{{content, bytes.end()}});
    system.run_until([] { return false; }, system.now());
  }
  void take() { caf::anon_send(end, messages::ValueTaken{}); }
  /// Why the peer was refused; none: it was not.
  std::optional<messages::Refused> refusal() const {
    std::optional<messages::Refused> found;
    if (const auto header = read_header(wire->sent); header)
      read_frame(header->kind, std::span(wire->sent).subspan(frame_header_bytes), [&](auto value) {
        if constexpr (std::is_same_v<decltype(value), messages::Refused>)
          found = std::move(value);
      });
    return found;
  }

  actors::VirtualSystem system{1, {}};
  std::shared_ptr<Wire> wire = std::make_shared<Wire>();
  caf::actor session = system.system().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const messages::OpenDraft&) {}, [](const DraftWork&) {}};
  });
  caf::actor end;
};

DraftWork work_of(std::size_t bytes) {
  DraftWork work;
  work.over.resize(bytes / sizeof(speculation::SequenceId));
  return work;
}

} // namespace

TEST_CASE("an engine that sends more work than its session takes is told so, and cut off") {
  NodeEnd node;
  for (std::size_t i = 0; i < limits::values_waiting_max; ++i)
    node.receive(work_of(8));
  REQUIRE(node.wire->reads);
  REQUIRE_FALSE(node.refusal());
  node.receive(work_of(8));
  CHECK_FALSE(node.wire->reads);
  const auto refusal = node.refusal();
  REQUIRE(refusal);
  CHECK(refusal->why.code == ErrorCode::overloaded);
  CHECK(refusal->why.message.find("4097 messages") != std::string::npos);
}

TEST_CASE("work of many bytes that nobody takes is refused before it fills the memory") {
  NodeEnd node;
  constexpr std::size_t large = 7u << 20;
  std::size_t sent = 0;
  node.receive(messages::OpenDraft{}); // one that introduces itself may say more
  for (; node.wire->reads && sent < 2 * limits::waiting_bytes_max; sent += large)
    node.receive(work_of(large));
  CHECK(sent <= limits::waiting_bytes_max + large);
  REQUIRE(node.refusal());
  CHECK(node.refusal()->why.code == ErrorCode::overloaded);
}

TEST_CASE("work that is taken makes room for as much again") {
  NodeEnd node;
  for (std::size_t i = 0; i < 3 * limits::values_waiting_max; ++i) {
    node.receive(work_of(8));
    node.take();
    if (i % limits::values_waiting_max == limits::values_waiting_max / 2)
      node.settle();
  }
  CHECK(node.wire->reads);
  CHECK_FALSE(node.refusal());
}
