#include "net/framing.hpp"

#include <fmt/format.h>

namespace paceline::net {
namespace {

constexpr unsigned group_bits = 7;
constexpr unsigned char more = 0x80;
constexpr std::size_t length_bytes_max = 5; // 35 bits: beyond any limit

} // namespace

void append_frame(std::string& stream, std::string_view message) {
  std::size_t rest = message.size();
  for (; rest >= more; rest >>= group_bits)
    stream += char((rest & (more - 1)) | more);
  stream += char(rest);
  stream += message;
}

void FrameReader::feed(std::string_view bytes) {
  buffer_.erase(0, begin_); // nothing of it is pointed into any more
  begin_ = 0;
  buffer_ += bytes;
}

Result<std::optional<std::string_view>> FrameReader::next() {
  std::size_t length = 0;
  for (std::size_t i = 0; begin_ + i < buffer_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(buffer_[begin_ + i]);
    length |= std::size_t(byte & (more - 1)) << (group_bits * i);
    if (length > most_)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a frame of {} bytes or more: {} is the most here", length, most_),
                  "send less at once, or raise the server's --max-body");
    if ((byte & more) == 0) {
      const std::size_t body = begin_ + i + 1;
      if (buffer_.size() - body < length)
        return std::optional<std::string_view>();
      begin_ = body + length;
      return std::string_view(buffer_).substr(body, length);
    }
    if (i + 1 == length_bytes_max)
      return fail(ErrorCode::invalid_argument, "a frame's length has too many bytes",
                  "write it as a varint of protobuf, as short as it can be");
  }
  return std::optional<std::string_view>();
}

} // namespace paceline::net
