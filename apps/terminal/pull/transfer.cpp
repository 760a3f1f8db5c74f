#include "apps/terminal/pull/transfer.hpp"

#include "apps/terminal/limits.hpp"
#include "base/parse_number.hpp"
#include "paceline/version.hpp"
#include "text/blanks.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace paceline::apps::pull {
namespace {

constexpr long buffer_bytes = 256L << 10;

/// Returns the file with the authorities that are trusted, where libcurl would not find it itself:
/// the one that is named, or that of another distribution than the program was made on.
const char* authorities() {
  if (const char* named = std::getenv("SSL_CERT_FILE"); named && *named)
    return named;
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (access(file, R_OK) == 0)
      return file;
  return nullptr;
}

Reply::Ending ending_of(CURLcode code) {
  switch (code) {
  case CURLE_OK: return Reply::Ending::whole;
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_PARTIAL_FILE:
  case CURLE_OPERATION_TIMEDOUT:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_GOT_NOTHING:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_HTTP2:
  case CURLE_HTTP2_STREAM: return Reply::Ending::cut;
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE: return Reply::Ending::untrusted;
  default: return Reply::Ending::impossible;
  }
}

/// Returns the first byte of "bytes 100-199/200"; none: it has another form.
std::optional<std::uint64_t> range_begin(std::string_view text) {
  constexpr std::string_view unit = "bytes ";
  if (!text.starts_with(unit))
    return std::nullopt;
  text.remove_prefix(unit.size());
  return base::take_number<std::uint64_t>(text);
}

/// One request under way.
struct Call {
  CURL* curl;
  Receiver* receiver;
  std::stop_token stop;
  Reply reply{};
  bool began = false;

  void header(std::string_view line) {
    if (line.starts_with("HTTP/")) { // Another answer, behind a redirect.
      reply.headers.clear();
      return;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos)
      return;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = text::trimmed(line.substr(colon + 1));
  }

  Result<void> body(std::string_view bytes) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    reply.status = int(status);
    if (!reply.has_body()) // What the server says of an error is in its headers.
      return {};
    if (!began) {
      began = true;
      const auto offset = status == 206 ? range_begin(reply.header("content-range"))
                                        : std::optional<std::uint64_t>(0);
      if (!offset || (*offset != 0 && *offset != receiver->have()))
        return fail(ErrorCode::corrupt, "the server sent another part of a file than was asked for",
                    "try again later, or another HF_ENDPOINT");
      if (auto begun = receiver->begin(*offset); !begun)
        return begun;
    }
    return receiver->take(bytes);
  }
};

std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* call) noexcept {
  static_cast<Call*>(call)->header({bytes, size * count});
  return size * count;
}

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) noexcept {
  auto& call = *static_cast<Call*>(user);
  if (auto taken = call.body({bytes, size * count}); !taken) {
    call.reply.ending = Reply::Ending::refused;
    call.reply.error = taken.error();
    return CURL_WRITEFUNC_ERROR;
  }
  return size * count;
}

int on_progress(void* call, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  return static_cast<Call*>(call)->stop.stop_requested() ? 1 : 0;
}

/// Sets where a request goes, how far it is redirected, and how long it may take.
void set_route(CURL* curl, const std::string& url) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "paceline/" PACELINE_VERSION);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                   url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, limits::hub_redirects_max);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, long(limits::hub_connect_time.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, long(limits::hub_silence_time.count()));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, buffer_bytes);
  if (const char* file = authorities())
    curl_easy_setopt(curl, CURLOPT_CAINFO, file);
}

void set_callbacks(CURL* curl, Call& call) {
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &call);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &call);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &call);
}

/// Completes the reply when the request has ended. problem: libcurl's words; may be empty.
void conclude(Call& call, CURLcode code, const char* problem) {
  long status = 0;
  curl_easy_getinfo(call.curl, CURLINFO_RESPONSE_CODE, &status);
  call.reply.status = int(status);
  curl_off_t seconds = 0;
  if (call.reply.headers.contains("retry-after") &&
      curl_easy_getinfo(call.curl, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK)
    call.reply.retry_after = seconds;
  if (call.stop.stop_requested())
    call.reply.ending = Reply::Ending::stopped;
  else if (call.reply.ending != Reply::Ending::refused)
    call.reply.ending = ending_of(code);
  if (code != CURLE_OK)
    call.reply.problem = *problem ? problem : curl_easy_strerror(code);
}

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

} // namespace

struct Transfer::State {
  std::stop_token stop;
  std::unique_ptr<CURL, void (*)(CURL*)> curl{curl_easy_init(), curl_easy_cleanup};
};

std::string Reply::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : at->second;
}

Transfer::Transfer(std::stop_token stop)
    : state_(std::make_unique<State>(State{std::move(stop)})) {}
Transfer::~Transfer() = default;

Reply Transfer::get(const std::string& url, const std::string& token, Receiver& receiver) {
  CURL* curl = state_->curl.get();
  Call call{curl, &receiver, state_->stop};
  std::array<char, CURL_ERROR_SIZE> problem{};
  curl_easy_reset(curl); // Connections stay.
  set_route(curl, url);
  set_callbacks(curl, call);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem.data());
  const std::string range = fmt::format("{}-", receiver.have());
  if (receiver.have() > 0)
    curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  // libcurl sends a header of this name to no other host than the first, port and scheme included.
  std::unique_ptr<curl_slist, ListDeleter> headers;
  if (!token.empty())
    headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token).c_str()));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());

  conclude(call, curl_easy_perform(curl), problem.data());
  return std::move(call.reply);
}

std::string escaped(std::string_view text, bool path) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain || (path && c == '/') ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

} // namespace paceline::apps::pull
