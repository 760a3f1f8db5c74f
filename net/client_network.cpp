#include "net/client_network.hpp"

#include "net/codec.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <iterator>

namespace paceline {
namespace asio = boost::asio;
namespace {

const Error closed_here{ErrorCode::cancelled, "the client was closed", ""};
const Error cancelled_here{ErrorCode::cancelled, "the operation was cancelled", ""};

/// Nothing of it has run, or will.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported;
}

Error may_have_run(const Error& why) {
  return {ErrorCode::unavailable, why.message,
          "the request may have run: ask again if that does no harm, or submit it with retries"};
}

bool repeats_itself(const Request& request) {
  const Sampling& sampling = request.sampling;
  return sampling.seed || (sampling.temperature && *sampling.temperature == 0);
}

/// What would change the answer, and version 1 of the protocol cannot say; null: nothing.
const char* lacks(const Request& request) {
  if (!request.sampling.allowed_token_ids.empty())
    return "Sampling::allowed_token_ids";
  if (request.min_tokens != 0)
    return "Request::min_tokens";
  if (!request.cache_salt.empty())
    return "Request::cache_salt";
  return request.skip_special_tokens ? nullptr : "Request::skip_special_tokens";
}

} // namespace

Client::Network::Network(ClientOptions options)
    : options_(std::move(options)), work_(io_.get_executor()), resting_(io_) {}

// --- from any thread

void Client::Network::connect(std::uint64_t id, Done<ServerInfo> done) {
  asio::post(io_, [self = shared_from_this(), id, done = std::move(done)]() mutable {
    if (self->server_)
      return done(*self->server_);
    self->connecting_.emplace(id, std::move(done));
    self->want_connection();
  });
}

void Client::Network::health(std::uint64_t id, Done<ServerHealth> done) {
  asio::post(io_, [self = shared_from_this(), id, done = std::move(done)]() mutable {
    if (!self->server_)
      return done(fail(ErrorCode::unavailable, "there is no connection", "connect first"));
    self->asking_.emplace(id, std::move(done));
    self->send(net::Ping{id});
  });
}

void Client::Network::submit(std::uint64_t id, Request request, SubmitOptions options,
                             Done<Stream> done) {
  if (const char* field = lacks(request))
    return done(fail(ErrorCode::unsupported, fmt::format("the protocol has no field for {}", field),
                     "leave it out, or ask over HTTP"));
  if (options.retries > 0 && !repeats_itself(request))
    return done(fail(ErrorCode::invalid_argument,
                     "only a request whose answer repeats itself can be retried",
                     "give it a seed, or temperature 0"));
  One one{.request = std::move(request), .retries = options.retries};
  one.repeats = options.retries > 0;
  one.done = std::move(done);
  asio::post(io_, [self = shared_from_this(), id, one = std::move(one)]() mutable {
    One& added = self->requests_.emplace(id, std::move(one)).first->second;
    if (self->server_)
      self->send(id, added);
    else
      self->want_connection();
  });
}

void Client::Network::cancel(std::uint64_t id) {
  asio::post(io_, [self = shared_from_this(), id] { self->cancel_here(id); });
}

void Client::Network::close() {
  asio::post(io_, [self = shared_from_this()] {
    self->closed_ = true;
    self->resting_.cancel();
    if (self->link_)
      self->link_->close();
    self->server_.reset();
    self->give_up(closed_here);
    while (!self->requests_.empty())
      self->finish(self->requests_.begin(), FinishReason::cancelled, std::nullopt);
    self->work_.reset();
  });
}

// --- the connection

void Client::Network::want_connection() {
  if (closed_)
    return give_up(closed_here);
  if (std::exchange(maintained_, true))
    return;
  asio::co_spawn(
      io_, [self = shared_from_this()] { return self->maintain(); }, asio::detached);
}

asio::awaitable<Result<ServerInfo>> Client::Network::attempt() {
  link_ = std::make_shared<net::ClientLink>(io_, options_);
  auto welcome = co_await link_->open();
  if (!welcome)
    co_return tl::unexpected(std::move(welcome.error()));
  frame_bytes_max_ = welcome->frame_bytes_max;
  co_return ServerInfo{std::move(welcome->server), std::move(welcome->model), welcome->ready};
}

/// Keeps a connection, until the client is closed or there is no sense in trying.
asio::awaitable<void> Client::Network::maintain() {
  auto rest = options_.reconnect_pause;
  bool ever = false;
  for (int failures = 0; !closed_;) {
    auto server = co_await attempt();
    if (closed_)
      break;
    if (server && ever && !server->ready) // it was started again, and is loading
      server = fail(ErrorCode::unavailable, "the server is loading its model", "try again later");
    if (server) {
      ever = true;
      failures = 0;
      server_ = std::move(*server);
      connected();
      const auto link = link_;
      const Error why =
          co_await link->run([this](net::ToClient message) { take(std::move(message)); });
      server_.reset();
      lost(closed_ ? closed_here : why);
      if (link->served())
        rest = options_.reconnect_pause;
    } else {
      link_->close();
      ++failures;
      const bool hopeless = !ever || is_refusal(server.error().code);
      if (hopeless || failures >= options_.reconnect_tries)
        give_up(server.error());
      if (hopeless)
        break;
    }
    if (!closed_)
      co_await pause(rest);
    rest = std::min(2 * rest, options_.reconnect_pause_max);
  }
  maintained_ = false;
}

/// Half of the pause to all of it, so that clients of a server that went do not come back as one.
asio::awaitable<void> Client::Network::pause(std::chrono::milliseconds about) {
  std::uniform_int_distribution<std::int64_t> time(about.count() / 2, about.count());
  resting_.expires_after(std::chrono::milliseconds(time(chance_)));
  co_await resting_.async_wait(asio::as_tuple(asio::use_awaitable));
}

void Client::Network::connected() {
  newest_ = 0;
  operation_of_.clear();
  for (auto& [id, done] : std::exchange(connecting_, {}))
    done(*server_);
  for (auto at = requests_.begin(); at != requests_.end();) {
    const auto next = std::next(at); // one that cannot be sent ends
    send(at->first, at->second);
    at = next;
  }
}

/// Requests that wait for a connection need not wait any longer.
void Client::Network::give_up(const Error& why) {
  for (auto& [id, done] : std::exchange(connecting_, {}))
    done(tl::unexpected(why));
  for (auto& [id, done] : std::exchange(asking_, {}))
    done(tl::unexpected(why));
  for (auto at = requests_.begin(); at != requests_.end();) {
    const auto next = std::next(at);
    if (at->second.number == 0)
      finish(at, FinishReason::error, why);
    at = next;
  }
}

/// What had left may have run, and ends; unless it may be asked for again.
void Client::Network::lost(const Error& why) {
  for (auto& [id, done] : std::exchange(asking_, {}))
    done(tl::unexpected(why));
  for (auto at = requests_.begin(); at != requests_.end();) {
    const auto next = std::next(at);
    One& one = at->second;
    const bool left = one.place <= link_->sent(); // else its frame is not whole over there
    if (one.number != 0 && one.cancelled) {
      finish(at, FinishReason::cancelled, std::nullopt);
    } else if (one.number != 0 && left && one.retries == 0) {
      finish(at, FinishReason::error, may_have_run(why));
    } else if (one.number != 0) {
      one.retries -= left;
      one.number = 0;
      one.replay.rewind();
    }
    at = next;
  }
}

void Client::Network::send(const net::ToServer& message) {
  std::string frame;
  net::append(frame, message);
  link_->send(frame);
}

Result<std::string> Client::Network::frame_of(Number number, const One& one) const {
  net::Submit submit{number, one.request};
  if (auto& deadline = submit.request.deadline) {
    *deadline -=
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - one.submitted);
    if (deadline->count() <= 0)
      deadline = std::chrono::milliseconds(1); // the server tells how it ends
  }
  std::string frame;
  net::append(frame, submit);
  constexpr std::size_t length_bytes = 5;
  if (frame.size() > frame_bytes_max_ + length_bytes)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the request has {} bytes: {} is the most", frame.size(), frame_bytes_max_),
        "shorten it, or raise the server's --max-body");
  return frame;
}

void Client::Network::send(std::uint64_t id, One& one) {
  auto frame = frame_of(newest_ + 1, one);
  if (!frame)
    return finish(requests_.find(id), FinishReason::error, std::move(frame.error()));
  one.number = ++newest_;
  one.place = link_->send(*frame);
  operation_of_.emplace(one.number, id);
}

// --- what the server says

void Client::Network::take(net::ToClient message) {
  if (const auto* yes = std::get_if<net::Accepted>(&message))
    accepted(yes->number);
  else if (auto* no = std::get_if<net::Failure>(&message))
    refused(no->number, std::move(no->error));
  else if (auto* news = std::get_if<net::Happened>(&message))
    happened(news->number, std::move(news->event));
  else if (const auto* answer = std::get_if<net::Pong>(&message))
    pong(*answer);
  // Draining: what was accepted goes on; what is submitted from now on the server refuses.
}

Client::Network::Requests::iterator Client::Network::find(Number number) {
  const auto id = operation_of_.find(number);
  return id == operation_of_.end() ? requests_.end() : requests_.find(id->second);
}

void Client::Network::accepted(Number number) {
  const auto at = find(number);
  if (at == requests_.end() || at->second.sink || at->second.cancelled)
    return;
  One& one = at->second;
  const auto cancel = [kept = weak_from_this(), id = at->first] {
    if (const auto self = kept.lock())
      self->cancel(id);
  };
  one.sink = std::make_shared<Stream::Impl>(at->first, cancel, callbacks_);
  std::exchange(one.done, nullptr)(Stream(one.sink));
}

void Client::Network::refused(Number number, Error error) {
  if (const auto at = find(number); at != requests_.end())
    finish(at, FinishReason::error, std::move(error));
}

void Client::Network::happened(Number number, Event event) {
  const auto at = find(number);
  if (at == requests_.end())
    return;
  One& one = at->second;
  if (one.repeats && !one.cancelled && !one.replay.pass(event)) {
    send(net::Cancel{number});
    return finish(at, FinishReason::error,
                  Error{ErrorCode::unavailable,
                        "after the connection was lost the server answers something else",
                        "the server or its settings changed: ask again from the beginning"});
  }
  const bool last = std::holds_alternative<Finished>(event);
  if (one.sink && !net::Replay::empty(event))
    one.sink->deliver(std::move(event));
  if (last) {
    operation_of_.erase(number);
    requests_.erase(at);
  }
}

void Client::Network::pong(const net::Pong& pong) {
  const auto at = asking_.find(pong.number);
  if (at == asking_.end())
    return; // an answer to what keeps the connection alive
  const auto done = std::move(at->second);
  asking_.erase(at);
  done(ServerHealth{pong.ready, pong.healthy});
}

// --- ends

/// Tells its caller, whichever way it waits, that nothing more comes.
void Client::Network::finish(Requests::iterator at, FinishReason reason,
                             std::optional<Error> error) {
  One one = std::move(at->second);
  operation_of_.erase(one.number);
  requests_.erase(at);
  if (one.done)
    return one.done(tl::unexpected(error.value_or(cancelled_here)));
  if (!one.sink)
    return; // it was told
  Finished end;
  end.reason = reason;
  end.error = std::move(error);
  one.sink->deliver(std::move(end));
}

void Client::Network::cancel_here(std::uint64_t id) {
  if (const auto at = connecting_.find(id); at != connecting_.end()) {
    at->second(tl::unexpected(cancelled_here));
    connecting_.erase(at);
  } else if (const auto asked = asking_.find(id); asked != asking_.end()) {
    asked->second(tl::unexpected(cancelled_here));
    asking_.erase(asked);
  } else if (const auto request = requests_.find(id); request != requests_.end()) {
    One& one = request->second;
    if (one.number == 0)
      return finish(request, FinishReason::cancelled, std::nullopt);
    if (!std::exchange(one.cancelled, true))
      send(net::Cancel{one.number});
    if (one.done) // not accepted yet: it ends here, and what the server says of it is thrown away
      std::exchange(one.done, nullptr)(tl::unexpected(cancelled_here));
  }
}

} // namespace paceline
