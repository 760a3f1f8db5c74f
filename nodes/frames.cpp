#include "nodes/frames.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::nodes {
namespace {

constexpr std::string_view magic = "PLND";

template <class Number>
void put(char* to, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    to[i] = char(value >> (8 * i) & 0xff);
}

template <class Number>
Number get(const char* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value |= std::uint64_t(static_cast<unsigned char>(from[i])) << (8 * i);
  return Number(value);
}

} // namespace

std::array<char, frame_header_bytes> write_header(const FrameHeader& header) {
  std::array<char, frame_header_bytes> bytes{};
  std::copy(magic.begin(), magic.end(), bytes.begin());
  put(&bytes[4], header.protocol);
  put(&bytes[6], std::uint16_t(header.kind));
  put(&bytes[8], header.size);
  return bytes;
}

std::optional<FrameHeader> read_header(std::span<const char> bytes) {
  if (bytes.size() < frame_header_bytes || std::string_view(bytes.data(), 4) != magic)
    return std::nullopt;
  return FrameHeader{get<std::uint16_t>(&bytes[4]), FrameKind(get<std::uint16_t>(&bytes[6])),
                     get<std::uint32_t>(&bytes[8])};
}

void append_refusal(std::vector<char>& to, const std::string& text) {
  const auto header = write_header({node_protocol, FrameKind::refusal, std::uint32_t(text.size())});
  to.insert(to.end(), header.begin(), header.end());
  to.insert(to.end(), text.begin(), text.end());
}

} // namespace paceline::nodes
