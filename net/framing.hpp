// Frames in a stream of bytes: a varint that says how long, then so many bytes.
#pragma once

#include "paceline/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::net {

/// Appends a message with its length before it.
void append_frame(std::string& stream, std::string_view message);

/// Takes a stream apart. Holds at most one frame and what was fed after it.
class FrameReader {
public:
  /// most: bytes of a message; a longer one is an error as soon as its length is read.
  explicit FrameReader(std::size_t most) : most_(most) {}

  void set_limit(std::size_t most) { most_ = most; }
  void feed(std::string_view bytes);
  /// The next message, if it is there whole; valid until the next call. After an error the stream
  /// cannot be read any further.
  Result<std::optional<std::string_view>> next();
  /// A frame has begun and is not whole.
  bool amid() const { return begin_ < buffer_.size(); }

private:
  std::size_t most_;
  std::string buffer_;
  std::size_t begin_ = 0; ///< Of what has not been taken.
};

} // namespace paceline::net
