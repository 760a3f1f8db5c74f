// Requests and events as messages of paceline.proto, and back.
#pragma once

#include "net/paceline.pb.h"
#include "paceline/event.hpp"
#include "paceline/request.hpp"

namespace paceline::net {

/// Everything that a request says. Error: a text that the message cannot hold, by its field's name.
Result<void> write(v1::GenerateRequest& to, const Request& from);
void write(v1::GenerateEvent& to, const Event& from);
void write(v1::Error& to, const Error& from);

/// What a message says. Errors: values that no enumeration has, more than one prompt, an event of
/// no kind that this version knows. Whether a request makes sense is the engine's to say.
Result<Request> read(const v1::GenerateRequest& from);
Result<Event> read(const v1::GenerateEvent& from);
Result<Error> read(const v1::Error& from);

} // namespace paceline::net
