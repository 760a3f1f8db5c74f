// An engine on another machine: `paceline serve --grpc-port`, used as if it were in this process.
//
//   paceline::Client client(io.get_executor(), {.host = "gpu-1", .port = 8001});
//   auto stream = co_await client.async_submit(request, use_awaitable);
//   while (auto event = co_await stream->async_next(use_awaitable)) ...
//
// The operations are those of AsyncEngine (paceline/asio.hpp), with the same requests, events and
// errors, the same completion tokens, executors and cancellation: code that embeds an engine
// becomes code that asks a server by changing the object it asks.
//
// One connection carries any number of requests. gRPC reads it on threads of its own, which run
// none of your code: deltas that nobody has read yet are joined, as in an engine's streams. A
// connection that is lost is made again, after growing pauses.
//
// A request runs at most once. If the connection is lost while it runs, it ends as `unavailable`,
// and may have run to its end. It is only asked for again with SubmitOptions::retries: then it must
// have a seed or temperature 0, so that its answer repeats itself. What had come already is
// compared with the new answer and left out, and an answer that differs is an error.
#pragma once

#include "paceline/asio.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace paceline {

struct ClientOptions {
  std::string host = "127.0.0.1"; ///< A host name or an address.
  std::uint16_t port = 8001;
  std::string api_key{}; ///< Key that is sent with each call; empty: none.
  std::string model{};   ///< Which of the server's models to use; empty: the only one.

  bool tls = false;
  std::string tls_authorities{}; ///< PEM file of the authorities to trust; empty: the system's.

  /// Time for one attempt to connect, including what the server is asked then.
  std::chrono::milliseconds connect_timeout{5'000};
  /// Pause between attempts: the first, and the longest; it doubles each time, with some
  /// randomness.
  std::chrono::milliseconds reconnect_pause{50};
  std::chrono::milliseconds reconnect_pause_max{5'000};
  /// Failed attempts in a row after which requests that wait for a connection fail.
  int reconnect_tries = 5;
  /// A server that sends nothing for so long, though it is pinged, counts as dead.
  std::chrono::milliseconds silence{20'000};
};

struct SubmitOptions {
  /// How often the request may be asked for again when the connection is lost.
  int retries = 0;
};

/// What a server says about itself.
struct ServerInfo {
  std::string server{}; ///< "paceline/0.1.0"
  std::string model{};
  bool ready = false; ///< It takes requests; it does not while it loads or drains.
};

struct ServerHealth {
  bool ready = false;   ///< Same as ServerInfo::ready.
  bool healthy = false; ///< Its engine works.
};

/// A connection to a server. Threads: one at a time, as with AsyncEngine. Executors' contexts must
/// outlive the client. In a forked child operations are refused, and destroying the object does
/// nothing. A request that was cancelled ends with Usage::completion_tokens as the only one of its
/// counts.
class Client {
public:
  using executor_type = boost::asio::any_io_executor;

  /// executor: runs handlers that have no executor of their own. Connects on the first request.
  Client(executor_type executor, ClientOptions options);
  /// Cancels everything; operations that wait still complete.
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  /// Waits for a connection, for callers that want to know at once whether there is a server. Fails
  /// with the first attempt. Signature: void(Result<ServerInfo>).
  template <class Token>
  auto async_connect(Token&& token) {
    return initiate<ServerInfo>(
        [network = network_](std::uint64_t id, auto done) {
          start_connect(network, id, std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Completes when the server has accepted the request. Errors: the server's; `unavailable` if
  /// there is no connection. Signature: void(Result<AsyncStream>).
  template <class Token>
  auto async_submit(Request request, Token&& token) {
    return async_submit(std::move(request), SubmitOptions{}, std::forward<Token>(token));
  }
  template <class Token>
  auto async_submit(Request request, SubmitOptions options, Token&& token) {
    return boost::asio::async_initiate<Token, void(Result<AsyncStream>)>(
        [executor = executor_, network = network_, options](auto handler, Request asked) {
          submit_to(network, executor, std::move(asked), options, std::move(handler));
        },
        token, std::move(request));
  }

  /// Submits a request and waits for its end. Signature: void(Result<Completion>).
  template <class Token>
  auto async_complete(Request request, Token&& token) {
    return async_complete(std::move(request), SubmitOptions{}, std::forward<Token>(token));
  }
  template <class Token>
  auto async_complete(Request request, SubmitOptions options, Token&& token) {
    auto submit = [executor = executor_, network = network_, options](Request asked, auto handler) {
      submit_to(network, executor, std::move(asked), options, std::move(handler));
    };
    return boost::asio::async_compose<Token, void(Result<Completion>)>(
        detail::Gather<decltype(submit)>{std::move(submit), std::move(request)}, token, executor_);
  }

  /// Asks the server for its health. Signature: void(Result<ServerHealth>).
  template <class Token>
  auto async_health(Token&& token) {
    return initiate<ServerHealth>(
        [network = network_](std::uint64_t id, auto done) {
          start_health(network, id, std::move(done));
        },
        std::forward<Token>(token));
  }

  executor_type get_executor() const { return executor_; }

  class Network;

private:
  using SharedNetwork = std::shared_ptr<Network>;
  template <class T>
  using Done = std::function<void(Result<T>)>; // called once, on whichever thread

  // These are defined in the library. An id numbers an operation of this client; cancelling one
  // that has ended does nothing.
  static std::uint64_t next_operation(const SharedNetwork& network);
  static void start_connect(const SharedNetwork& network, std::uint64_t id, Done<ServerInfo> done);
  static void start_health(const SharedNetwork& network, std::uint64_t id, Done<ServerHealth> done);
  static void start_submit(const SharedNetwork& network, std::uint64_t id, Request request,
                           SubmitOptions options, Done<Stream> done);
  static void cancel(const std::weak_ptr<Network>& network, std::uint64_t id);

  /// Makes the callback of an operation, which completes it with what `convert` makes of the
  /// result.
  template <class T, class Handler, class Convert>
  static Done<T> pend(const SharedNetwork& network, std::uint64_t id, const executor_type& executor,
                      Handler handler, Convert convert) {
    detail::Pending<Handler> pending(std::move(handler), executor);
    if (auto slot = pending.slot(); slot.is_connected())
      slot.assign([id, kept = std::weak_ptr(network)](boost::asio::cancellation_type) {
        cancel(kept, id);
      });
    auto shared = std::make_shared<detail::Pending<Handler>>(std::move(pending));
    return [shared, convert](Result<T> result) {
      detail::hand_over(std::move(*shared), convert(std::move(result)));
    };
  }

  template <class Handler>
  static void submit_to(const SharedNetwork& network, const executor_type& executor,
                        Request&& request, SubmitOptions options, Handler handler) {
    const std::uint64_t id = next_operation(network);
    const auto convert = [executor](Result<Stream> opened) {
      return std::move(opened).map(
          [&](Stream&& stream) { return AsyncStream(executor, std::move(stream)); });
    };
    start_submit(network, id, std::move(request), options,
                 pend<Stream>(network, id, executor, std::move(handler), convert));
  }

  template <class T, class Start, class Token>
  auto initiate(Start start, Token&& token) {
    return boost::asio::async_initiate<Token, void(Result<T>)>(
        [executor = executor_, network = network_, start = std::move(start)](auto handler) {
          const std::uint64_t id = next_operation(network);
          start(id, pend<T>(network, id, executor, std::move(handler),
                            [](Result<T> result) { return result; }));
        },
        token);
  }

  executor_type executor_;
  SharedNetwork network_;
};

} // namespace paceline
