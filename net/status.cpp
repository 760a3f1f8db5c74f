#include "net/status.hpp"

#include "net/codec.hpp"

#include <fmt/format.h>

namespace paceline::net {
namespace {

constexpr const char* type_url = "type.googleapis.com/paceline.v1.Error";

grpc::StatusCode code_of(ErrorCode code) {
  switch (code) {
  case ErrorCode::invalid_argument: return grpc::INVALID_ARGUMENT;
  case ErrorCode::not_found: return grpc::NOT_FOUND;
  case ErrorCode::corrupt: return grpc::DATA_LOSS;
  case ErrorCode::unsupported: return grpc::UNIMPLEMENTED;
  case ErrorCode::out_of_memory:
  case ErrorCode::overloaded: return grpc::RESOURCE_EXHAUSTED;
  case ErrorCode::cancelled: return grpc::CANCELLED;
  case ErrorCode::deadline: return grpc::DEADLINE_EXCEEDED;
  case ErrorCode::unavailable: return grpc::UNAVAILABLE;
  case ErrorCode::internal: break;
  }
  return grpc::INTERNAL;
}

} // namespace

grpc::Status status_of(const Error& error) {
  return status_of(error, code_of(error.code));
}

grpc::Status status_of(const Error& error, grpc::StatusCode code) {
  v1::Error told;
  write(told, error);
  v1::StatusDetails details;
  details.set_code(code);
  details.set_message(error.text());
  v1::StatusDetails::Detail& only = *details.add_details();
  only.set_type_url(type_url);
  only.set_value(told.SerializeAsString());
  return {code, error.text(), details.SerializeAsString()};
}

std::optional<Error> told_by(const grpc::Status& status) {
  v1::StatusDetails details;
  v1::Error told;
  if (status.ok() || !details.ParseFromString(status.error_details()))
    return std::nullopt;
  for (const v1::StatusDetails::Detail& detail : details.details())
    if (detail.type_url() == type_url && told.ParseFromString(detail.value()))
      if (auto error = read(told))
        return std::move(*error);
  return std::nullopt;
}

Error error_of(const grpc::Status& status, const std::string& where) {
  const std::string said = fmt::format("{} ({})", where, status.error_message());
  switch (status.error_code()) {
  case grpc::DEADLINE_EXCEEDED:
    return {ErrorCode::unavailable, "no answer from " + where + " in time",
            "check host and port, or raise connect_timeout"};
  case grpc::RESOURCE_EXHAUSTED:
    return {ErrorCode::invalid_argument, "too much at once for " + said,
            "shorten it, or raise the server's --max-body"};
  case grpc::UNIMPLEMENTED:
    return {ErrorCode::unsupported, "no Paceline, or another version, is at " + said,
            "connect to the port of `paceline serve --grpc-port`"};
  default:
    return {ErrorCode::unavailable, "cannot reach " + said,
            "check that `paceline serve --grpc-port` runs there, and TLS and its authorities"};
  }
}

} // namespace paceline::net
