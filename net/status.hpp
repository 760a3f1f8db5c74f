// Errors as the statuses of calls, and back.
#pragma once

#include "paceline/error.hpp"

#include <grpcpp/support/status.h>
#include <optional>
#include <string>

namespace paceline::net {

/// The metadata of an answer that was accepted: its id.
inline constexpr const char* request_id = "x-request-id";

/// Its message is the error's text, and its details have the error itself.
grpc::Status status_of(const Error& error);
/// The same with a code that says more, such as UNAUTHENTICATED.
grpc::Status status_of(const Error& error, grpc::StatusCode code);

/// The error that a server of ours put into a status; none: the status is gRPC's own.
std::optional<Error> told_by(const grpc::Status& status);
/// What a status of gRPC's own says. where: of the server, for the message.
Error error_of(const grpc::Status& status, const std::string& where);

} // namespace paceline::net
