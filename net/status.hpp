// Translates errors to the statuses of gRPC calls, and back.
#pragma once

#include "paceline/error.hpp"

#include <grpcpp/support/status.h>
#include <optional>
#include <string>

namespace paceline::net {

/// Metadata key of an accepted answer's id.
inline constexpr const char* request_id = "x-request-id";

/// Makes a status. Its message is the error's text, and its details hold the error itself.
grpc::Status status_of(const Error& error);
/// Makes one with a code that says more, such as UNAUTHENTICATED.
grpc::Status status_of(const Error& error, grpc::StatusCode code);

/// Returns the error that one of our servers put into a status; none: the status is gRPC's own.
std::optional<Error> told_by(const grpc::Status& status);
/// Translates a status of gRPC's own. where: the server, for the message.
Error error_of(const grpc::Status& status, const std::string& where);

} // namespace paceline::net
