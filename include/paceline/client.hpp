// An engine somewhere else: `paceline serve --grpc-port`, asked as if it were here.
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
// none of your code: what nobody has read yet is joined, as in an engine's streams. A connection
// that is lost is made again, after growing pauses.
//
// A request runs at most once. If the connection is lost while it runs, it ends as `unavailable`,
// and may have run to its end. Only with SubmitOptions::retries is it asked for again: then it must
// have a seed or temperature 0, so that its answer repeats itself; what had come already is
// compared with the new answer and left out, and an answer that differs is an error.
#pragma once

#include "paceline/asio.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace paceline {

struct ClientOptions {
  std::string host = "127.0.0.1"; ///< A name or an address.
  std::uint16_t port = 8001;
  std::string api_key{}; ///< Empty: none.
  std::string model{};   ///< Of several that the server has; empty: the only one.

  bool tls = false;
  std::string tls_authorities{}; ///< PEM file of whom to trust; empty: whom the system trusts.

  /// For one attempt to connect, and for what is asked of the server then.
  std::chrono::milliseconds connect_timeout{5'000};
  /// Between attempts: at first, and at most; doubled each time, with some chance in it.
  std::chrono::milliseconds reconnect_pause{50};
  std::chrono::milliseconds reconnect_pause_max{5'000};
  /// Attempts in a row that fail before requests that wait for a connection do.
  int reconnect_tries = 5;
  /// A server that says nothing for so long, though it is pinged, is taken for dead.
  std::chrono::milliseconds silence{20'000};
};

struct SubmitOptions {
  /// How often the request may be asked for again when the connection is lost.
  int retries = 0;
};

/// What a server says of itself.
struct ServerInfo {
  std::string server{}; ///< "paceline/0.1.0"
  std::string model{};
  bool ready = false; ///< It takes requests: not while it loads or drains.
};

struct ServerHealth {
  bool ready = false;   ///< As ServerInfo's.
  bool healthy = false; ///< Its engine works.
};

/// Threads: one at a time, as AsyncEngine. Executors' contexts must outlive the client. In a forked
/// child operations are refused, and the end of the object does nothing. A request that was
/// cancelled ends with no more of its counts than Usage::completion_tokens.
class Client {
public:
  using executor_type = boost::asio::any_io_executor;

  /// executor: where handlers without an executor of their own run. Connects when first asked.
  Client(executor_type executor, ClientOptions options);
  /// Cancels everything; what waits still completes.
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  /// Waits for a connection: for who wants to know at once whether there is a server. Fails with
  /// the first attempt. Signature: void(Result<ServerInfo>).
  template <class Token>
  auto async_connect(Token&& token) {
    return initiate<ServerInfo>(
        [network = network_](std::uint64_t id, auto done) {
          start_connect(network, id, std::move(done));
        },
        std::forward<Token>(token));
  }

  /// Completes when the server has accepted the request. Errors: the server's; `unavailable` where
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

  /// async_submit, and wait for the end. Signature: void(Result<Completion>).
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

  /// Asks the server how it is. Signature: void(Result<ServerHealth>).
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

  // In the library. Numbers are of this client's operations; to cancel one that has ended does
  // nothing.
  static std::uint64_t next_operation(const SharedNetwork& network);
  static void start_connect(const SharedNetwork& network, std::uint64_t id, Done<ServerInfo> done);
  static void start_health(const SharedNetwork& network, std::uint64_t id, Done<ServerHealth> done);
  static void start_submit(const SharedNetwork& network, std::uint64_t id, Request request,
                           SubmitOptions options, Done<Stream> done);
  static void cancel(const std::weak_ptr<Network>& network, std::uint64_t id);

  /// An operation under way: completes with what `done` is given, through `convert`.
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
