// The form in which values cross between machines: frames, each of which is a header and one value
// in CAF's format.
//
// CAF's own protocol for remote actors believes the length that a stranger announces, and lets one
// write to any actor; here a length is checked before anything is allocated, and only the values
// below are read (docs/machines.md).
#pragma once

#include "messages/values.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::nodes {

/// The version of frames and their contents; a peer with another one is refused by name. It changes
/// whenever a value does.
inline constexpr std::uint16_t node_protocol = 9;

/// X(type) for each value that crosses, in the order of their numbers, from 1 on.
#define PACELINE_CROSSING_VALUES(X)                                                                \
  X(OpenDraft)                                                                                     \
  X(DraftOpened)                                                                                   \
  X(Refused)                                                                                       \
  X(DraftWork)                                                                                     \
  X(Drafted)                                                                                       \
  X(Ping)                                                                                          \
  X(Pong)                                                                                          \
  X(Survey)                                                                                        \
  X(Surveyed)                                                                                      \
  X(SendModel)                                                                                     \
  X(ModelWanted)                                                                                   \
  X(ModelPart)                                                                                     \
  X(ModelTaken)                                                                                    \
  X(ModelStored)                                                                                   \
  X(OpenStage)                                                                                     \
  X(StageOpened)                                                                                   \
  X(StageRows)                                                                                     \
  X(StageDone)                                                                                     \
  X(ReadClock)                                                                                     \
  X(ClockRead)                                                                                     \
  X(NodeSpans)

enum class FrameKind : std::uint16_t {
  refusal = 0, ///< A text, in every version of the protocol.
#define PACELINE_FRAME_KIND(Type) Type,
  PACELINE_CROSSING_VALUES(PACELINE_FRAME_KIND)
#undef PACELINE_FRAME_KIND
      count
};

/// Whether an engine sends it; a node reads nothing else, and an engine only the others.
constexpr bool is_for_node(FrameKind kind) {
  switch (kind) {
  case FrameKind::OpenDraft:
  case FrameKind::DraftWork:
  case FrameKind::Ping:
  case FrameKind::Survey:
  case FrameKind::SendModel:
  case FrameKind::ModelPart:
  case FrameKind::OpenStage:
  case FrameKind::StageRows:
  case FrameKind::ReadClock: return true;
  default: return false;
  }
}

/// "PLND", protocol, kind, length of what follows; all little-endian. Its layout never changes.
struct FrameHeader {
  std::uint16_t protocol = node_protocol;
  FrameKind kind = FrameKind::refusal;
  std::uint32_t size = 0;
};
inline constexpr std::size_t frame_header_bytes = 12;
std::array<char, frame_header_bytes> write_header(const FrameHeader& header);
/// Reads a header. None: the peer does not speak this protocol.
std::optional<FrameHeader> read_header(std::span<const char> bytes);

/// Appends a text that every version reads.
void append_refusal(std::vector<char>& to, const std::string& text);

template <class Value>
constexpr FrameKind kind_of();
#define PACELINE_KIND_OF(Type)                                                                     \
  template <>                                                                                      \
  constexpr FrameKind kind_of<messages::Type>() {                                                  \
    return FrameKind::Type;                                                                        \
  }
PACELINE_CROSSING_VALUES(PACELINE_KIND_OF)
#undef PACELINE_KIND_OF

template <class Value>
void append_frame(std::vector<char>& to, const Value& value) {
  const std::size_t begin = to.size();
  to.resize(begin + frame_header_bytes);
  std::vector<char> content;
  caf::binary_serializer writer(nullptr, content);
  // The writer only reads the value, but is declared for both ways.
  if (writer(const_cast<Value&>(value))) // NOLINT(cppcoreguidelines-pro-type-const-cast)
    content.clear();                     // A value that cannot be written cannot be read.
  const auto header =
      write_header({node_protocol, kind_of<Value>(), std::uint32_t(content.size())});
  std::copy(header.begin(), header.end(), to.begin() + std::ptrdiff_t(begin));
  to.insert(to.end(), content.begin(), content.end());
}

/// Calls take(value) with the value in a frame of this kind. False: it is no such value.
template <class Take>
bool read_frame(FrameKind kind, std::span<const char> content, const Take& take) {
  const auto read = [&](auto value) {
    caf::binary_deserializer reader(nullptr, content.data(), content.size());
    if (reader(value) || reader.remaining() > 0)
      return false;
    take(std::move(value));
    return true;
  };
  switch (kind) {
#define PACELINE_READ_FRAME(Type)                                                                  \
  case FrameKind::Type: return read(messages::Type());
    PACELINE_CROSSING_VALUES(PACELINE_READ_FRAME)
#undef PACELINE_READ_FRAME
  case FrameKind::refusal:
  case FrameKind::count: break;
  }
  return false;
}

} // namespace paceline::nodes
