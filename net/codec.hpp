// Frames to bytes and back; the only code that sees protobuf.
#pragma once

#include "net/frames.hpp"
#include "paceline/error.hpp"

#include <string>
#include <string_view>

namespace paceline::net {

/// Appends a whole frame, its length included.
void append(std::string& stream, const ToServer& message);
void append(std::string& stream, const ToClient& message);

/// What a frame holds. Errors: not of the schema, of no kind this version knows, or of values that
/// no enumeration has. Whether a request makes sense is the engine's to say.
Result<ToServer> read_to_server(std::string_view frame);
Result<ToClient> read_to_client(std::string_view frame);

} // namespace paceline::net
