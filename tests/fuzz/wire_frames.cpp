// Any bytes from a connection are frames that mean the same when they are written again, or
// refused.
#include "net/codec.hpp"
#include "net/framing.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace paceline;
using paceline::testing::require;

template <class Message>
void check(std::string_view frame, Result<Message> (*read)(std::string_view)) {
  const auto message = read(frame);
  if (!message)
    return require(message.error().text().find('\n') == std::string::npos, "an error is one line");
  std::string once;
  net::append(once, *message);
  net::FrameReader reader(once.size());
  reader.feed(once);
  const auto whole = reader.next();
  require(whole && *whole && !reader.amid(), "what is written is one frame");
  const auto again = read(**whole);
  require(again.has_value(), "what is written is read again");
  std::string twice;
  net::append(twice, *again);
  require(once == twice, "and is the same");
}

} // namespace

/// The first byte says in which pieces the others come.
void paceline::testing::fuzz(std::string_view input) {
  if (input.empty())
    return;
  const std::size_t piece = 1 + static_cast<unsigned char>(input.front());
  constexpr std::size_t most = 1 << 16;
  net::FrameReader reader(most);
  for (std::size_t at = 1; at < input.size(); at += piece) {
    reader.feed(input.substr(at, piece));
    for (;;) {
      const auto frame = reader.next();
      if (!frame)
        return; // the connection ends here
      if (!*frame)
        break;
      require((*frame)->size() <= most, "a frame is within its limit");
      check(**frame, net::read_to_server);
      check(**frame, net::read_to_client);
    }
  }
}
