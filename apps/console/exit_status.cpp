#include "apps/console/exit_status.hpp"

#include "apps/console/field_names.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/console/terminal.hpp"

#include <algorithm>

namespace paceline::apps {
namespace {

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace

int exit_status(ErrorCode code) {
  switch (code) {
  case ErrorCode::invalid_argument:
  case ErrorCode::not_found:
  case ErrorCode::corrupt:
  case ErrorCode::unsupported: return status_usage;
  case ErrorCode::cancelled: return status_interrupted;
  case ErrorCode::out_of_memory:
  case ErrorCode::overloaded:
  case ErrorCode::deadline:
  case ErrorCode::unavailable:
  case ErrorCode::internal: return status_failed;
  }
  return status_failed;
}

int complain(const std::string& what, int status) {
  note(for_errors("paceline: " + one_line(what) + "\n"));
  return status;
}

void print_error(const Error& error) {
  complain(with_options(error).text(), 0);
}

} // namespace paceline::apps
