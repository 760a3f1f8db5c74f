#include "tests/nodes/lying_node.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <string>
#include <sys/socket.h>
#include <utility>

namespace paceline::testing {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using nodes::frame_header_bytes;
using nodes::FrameKind;

namespace {

const tcp::endpoint any_port{asio::ip::address_v4::loopback(), 0};

/// None: the connection has ended.
std::optional<Frame> read(tcp::socket& from) {
  Frame frame;
  frame.bytes.resize(frame_header_bytes);
  error_code ended;
  asio::read(from, asio::buffer(frame.bytes), ended);
  const auto header = ended ? std::nullopt : nodes::read_header(frame.bytes);
  if (!header)
    return std::nullopt;
  frame.kind = header->kind;
  frame.bytes.resize(frame_header_bytes + header->size);
  asio::read(from, asio::buffer(frame.bytes) + frame_header_bytes, ended);
  return ended ? std::nullopt : std::optional(std::move(frame));
}

bool write(tcp::socket& to, const Frame& frame) {
  error_code ended;
  asio::write(to, asio::buffer(frame.bytes), ended);
  return !ended;
}

void append_bytes(Frame& to, const nodes::FrameHeader& header, const std::string& content = "") {
  const auto bytes = nodes::write_header(header);
  to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
  to.bytes.insert(to.bytes.end(), content.begin(), content.end());
}

} // namespace

Lie of_kind(nodes::FrameKind kind, std::function<void(Frame&)> lie) {
  return [kind, lie = std::move(lie)](Frame& said, const Asked&) {
    if (said.kind != kind)
      return false;
    lie(said);
    return true;
  };
}

std::vector<NamedLie> broken_frames(FrameKind behind) {
  const auto bytes = [behind](const nodes::FrameHeader& header, const std::string& content = "") {
    return of_kind(behind, [=](Frame& said) { append_bytes(said, header, content); });
  };
  const auto value = [&](FrameKind kind, const std::string& content) {
    return bytes({nodes::node_protocol, kind, std::uint32_t(content.size())}, content);
  };
  return {
      {"a text in place of a value", value(FrameKind::refusal, "\x1b[2Jno\nmore")},
      {"a value that goes on", value(FrameKind::Pong, "x")},
      {"a value that is none", value(behind, std::string(40, 'x'))},
      {"2^40 elements in a few bytes", value(behind, "\xff\xff\xff\xff\xff\x1f")},
      {"a kind of value that there is not", value(FrameKind(999), "")},
      {"another protocol", bytes({nodes::node_protocol + 1, FrameKind::Pong, 0})},
      {"4 GiB that are to come", bytes({nodes::node_protocol, behind, 0xffffffff})},
      {"what has no header", of_kind(behind, [](Frame& said) { said.bytes.resize(1 << 16, 'x'); })},
  };
}

LyingNode::LyingNode(std::uint16_t honest)
    : acceptor_(io_, any_port), honest_(honest), accepting_([this] { accept(); }) {}

LyingNode::~LyingNode() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
  accepting_.join();
  cut();
  for (Connection& each : connections_) {
    each.to_node.join();
    each.to_engine.join();
  }
}

void LyingNode::accept() {
  for (;;) {
    error_code wrong;
    tcp::socket engine = acceptor_.accept(wrong);
    const std::lock_guard lock(mutex_);
    if (wrong || closed_)
      return;
    Connection& it = connections_.emplace_back(io_);
    it.engine = std::move(engine);
    it.node.connect({asio::ip::address_v4::loopback(), honest_}, wrong);
    for (tcp::socket* socket : {&it.engine, &it.node})
      socket->set_option(tcp::no_delay(true), wrong);
    it.to_node = std::thread([this, &it] { serve_engine(it); });
    it.to_engine = std::thread([this, &it] { serve_node(it); });
  }
}

/// Whoever of the two still reads or writes finds it ended.
void LyingNode::Connection::end() {
  over = true;
  ::shutdown(engine.native_handle(), SHUT_RDWR);
  ::shutdown(node.native_handle(), SHUT_RDWR);
}

void LyingNode::serve_engine(Connection& with) {
  while (const auto asked = read(with.engine)) {
    if (const auto work = asked->as<messages::DraftWork>()) {
      const std::lock_guard lock(mutex_);
      for (const messages::DraftFrom& from : work->sequences)
        with.asked[from.sequence] = from;
    }
    if (!write(with.node, *asked))
      return with.end();
  }
  if (!with.over)
    ended_by_engine(with);
  with.end();
}

void LyingNode::serve_node(Connection& with) {
  while (auto said = read(with.node)) {
    pass_through_lie(with, *said);
    if (!write(with.engine, *said))
      return; // the other thread finds out, too
  }
  with.end();
}

void LyingNode::pass_through_lie(const Connection& with, Frame& said) {
  const std::lock_guard lock(mutex_);
  if (lie_ && (!liar_ || liar_ == &with || for_ever_) && lie_(said, with.asked))
    liar_ = &with;
}

void LyingNode::ended_by_engine(const Connection& it) {
  const std::lock_guard lock(mutex_);
  if (&it != liar_)
    return;
  cut_off_ = true;
  news_.notify_all();
  if (!for_ever_)
    lie_ = nullptr;
}

void LyingNode::begin(Lie lie) {
  const std::lock_guard lock(mutex_);
  lie_ = std::move(lie);
  for_ever_ = false;
  liar_ = nullptr;
  cut_off_ = false;
}

void LyingNode::begin_for_ever(Lie lie) {
  begin(std::move(lie));
  const std::lock_guard lock(mutex_);
  for_ever_ = true;
}

void LyingNode::stop() {
  begin(nullptr);
}

bool LyingNode::lied() const {
  const std::lock_guard lock(mutex_);
  return liar_ != nullptr;
}

bool LyingNode::cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

bool LyingNode::await_cut_off() const {
  std::unique_lock lock(mutex_);
  return news_.wait_for(lock, std::chrono::seconds(30), [this] { return cut_off_; });
}

int LyingNode::connections() const {
  const std::lock_guard lock(mutex_);
  return int(connections_.size());
}

void LyingNode::cut() {
  const std::lock_guard lock(mutex_);
  for (Connection& each : connections_)
    each.end();
}

} // namespace paceline::testing
