// Translates requests and events to messages of paceline.proto, and back.
#pragma once

#include "net/paceline.pb.h"
#include "paceline/event.hpp"
#include "paceline/request.hpp"

namespace paceline::net {

/// Writes everything that a request says. Error: a text that the message cannot hold, named by its
/// field.
Result<void> write(v1::GenerateRequest& to, const Request& from);
void write(v1::GenerateEvent& to, const Event& from);
void write(v1::Error& to, const Error& from);

/// Reads a message. Errors: values that no enumeration has, more than one prompt, an event of a
/// kind that this version does not know. Whether a request makes sense is for the engine to say.
Result<Request> read(const v1::GenerateRequest& from);
Result<Event> read(const v1::GenerateEvent& from);
Result<Error> read(const v1::Error& from);

} // namespace paceline::net
