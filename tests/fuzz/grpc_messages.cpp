// Any request or event of the gRPC port means the same when it is written again, or is refused.
#include "net/codec.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace paceline;
using paceline::testing::require;

void write_again(v1::GenerateRequest& to, const Request& from) {
  require(net::write(to, from).has_value(), "what was read can be written");
}
void write_again(v1::GenerateEvent& to, const Event& from) {
  net::write(to, from);
}

template <class Message>
void check(std::string_view input) {
  Message message;
  if (!message.ParseFromArray(input.data(), int(input.size())))
    return;
  const auto meant = net::read(message);
  if (!meant)
    return require(meant.error().text().find('\n') == std::string::npos, "an error is one line");
  Message once;
  write_again(once, *meant);
  const auto again = net::read(once);
  require(again.has_value(), "what is written is read again");
  Message twice;
  write_again(twice, *again);
  require(once.SerializeAsString() == twice.SerializeAsString(), "and is the same");
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  check<v1::GenerateRequest>(input);
  check<v1::GenerateEvent>(input);
}
