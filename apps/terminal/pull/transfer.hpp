// One GET of HTTP or HTTPS, by libcurl.
#pragma once

#include "paceline/error.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace paceline::apps::pull {

/// Takes the body of an answer with status 200 or 206. An error ends the transfer.
class Receiver {
public:
  virtual ~Receiver() = default;
  /// Returns how many bytes there are: the next request asks for those behind them.
  virtual std::uint64_t have() const = 0;
  /// Whether nothing is missing.
  virtual bool complete() const = 0;
  /// Is called before the first bytes of an answer. offset: theirs in the whole; it may be 0 where
  /// more was asked for, if the server knows no ranges.
  virtual Result<void> begin(std::uint64_t offset) = 0;
  virtual Result<void> take(std::string_view bytes) = 0;
};

struct Reply {
  enum class Ending {
    whole,     ///< An answer with a status came to its end.
    cut,       ///< The connection failed; another try may do better.
    stopped,   ///< The caller asked to stop.
    refused,   ///< By the receiver, whose error is `error`.
    untrusted, ///< The server's certificate is not signed by an authority that is known here.
    impossible ///< No other try would do better.
  };
  Ending ending = Ending::impossible;
  int status = 0;                               ///< Of the last answer; 0: none came.
  std::map<std::string, std::string> headers{}; ///< Of that one; names in lower case.
  std::optional<std::int64_t> retry_after{};    ///< Seconds.
  std::string problem{};                        ///< libcurl's words, unless it is `whole`.
  Error error{};

  bool has_body() const { return status == 200 || status == 206; }
  /// Returns a header's value; empty: there is none.
  std::string header(const std::string& name) const;
};

/// Makes requests one after the other, and keeps connections between them. Follows redirects; never
/// from https to http. Threads: one, but stopping is for any.
class Transfer {
public:
  explicit Transfer(std::stop_token stop);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// token: is sent as a bearer to the URL's own host, port and scheme, and never to where that
  /// redirects; empty: none.
  Reply get(const std::string& url, const std::string& token, Receiver& receiver);

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a text with everything escaped that has a meaning in a URL; slashes stay if it is a
/// path.
std::string escaped(std::string_view text, bool path);

} // namespace paceline::apps::pull
