#include "apps/server/grpc_generation.hpp"

#include "apps/console/limits.hpp"
#include "apps/server/client_names.hpp"
#include "apps/server/progress.hpp"
#include "apps/server/prompts.hpp"
#include "apps/server/transport.hpp"
#include "net/codec.hpp"
#include "net/status.hpp"
#include "paceline/asio.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

Error not_now(Service::State state) {
  if (state == Service::State::loading)
    return {ErrorCode::unavailable, "the model is being loaded", "try again in a moment"};
  return {ErrorCode::unavailable, "the server is shutting down", "ask another one"};
}

tl::unexpected<Error> too_long(const Replica& replica, std::size_t count, std::size_t most) {
  return tl::unexpected(error_of(prompt_too_long(replica, count, most, "")));
}

/// Refuses biases that the engine would take without a bound.
Result<void> check_bias(const Sampling& sampling) {
  constexpr float most = limits::logit_bias_max;
  for (const auto& [token, bias] : sampling.logit_bias)
    if (!(std::abs(bias) <= most || bias == -std::numeric_limits<float>::infinity()))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias gives token {} {}", token, bias),
                  fmt::format("give numbers from {} to {}, or -infinity", -most, most));
  return {};
}

/// Returns the memory that a request holds besides its prompt.
std::size_t bytes_besides(const Request& request) {
  const Sampling& sampling = request.sampling;
  std::size_t sum =
      (request.stop_token_ids.size() + sampling.allowed_token_ids.size()) * sizeof(TokenId) +
      sampling.logit_bias.size() * sizeof(std::pair<TokenId, float>) + request.draft_scope.size() +
      request.cache_salt.size() + request.client.size() + bytes_of(request.constraint);
  for (const std::string& stop : request.stop)
    sum += sizeof(stop) + stop.size();
  return sum;
}

v1::GenerateEvent message_of(const Event& event) {
  v1::GenerateEvent message;
  net::write(message, event);
  return message;
}

/// Returns the error as clients see it. It may quote something that is no text, such as a file's
/// name, and a message of gRPC takes only texts.
Error told(const Error& error) {
  Error known = for_clients(error);
  known.message = text::sanitize_utf8(known.message);
  known.hint = text::sanitize_utf8(known.hint);
  return known;
}

/// The timer of a stream that rests until its next write may be; the stream's end cuts the rest
/// short. The handler of the end may run after the answer has gone, so both share this.
struct Beat {
  explicit Beat(const asio::any_io_executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  bool ended = false;
};

} // namespace

grpc::Status refusal(Service& service, const Error& error) {
  service.metrics().submitted(to_string(error.code));
  return net::status_of(told(error));
}

grpc::Status no_such_key(Service& service) {
  const Error error{ErrorCode::invalid_argument, "there is no such API key",
                    "give one of the server's in the metadata authorization: Bearer KEY"};
  service.metrics().submitted(to_string(error.code));
  return net::status_of(error, grpc::StatusCode::UNAUTHENTICATED);
}

asio::awaitable<void> GrpcGeneration::run() {
  if (!service_.keys().accept(call_->caller().authorization))
    co_return co_await call_->finish(no_such_key(service_));
  const Service::Answering counted(service_, Protocol::grpc);
  const auto admission = enter();
  if (!admission)
    co_return co_await call_->finish(refusal(service_, admission.error()));
  call_->on_gone([&] { (*admission)->cancel(); });
  const auto turn = co_await (*admission)->turn(model_, call_->caller().arrived);
  call_->on_gone(nullptr);
  Result<void> answered;
  if (turn)
    answered = co_await answer(**admission, turn->replica());
  else
    answered = tl::unexpected(error_of(turn.error()));
  (*admission)->leave();
  if (!answered)
    co_await call_->finish(refusal(service_, answered.error()));
}

Result<std::unique_ptr<Service::Admission>> GrpcGeneration::enter() {
  if (service_.state() != Service::State::ready)
    return tl::unexpected(not_now(service_.state()));
  return service_.admit(1).map_error(error_of);
}

/// Makes the prompt ids, and holds the memory that it takes.
asio::awaitable<Result<void>> GrpcGeneration::encode(const Replica& replica) {
  const auto no_room = [] { return tl::unexpected(error_of(no_request_memory())); };
  const std::size_t besides = bytes_besides(request_);
  const std::size_t most = prompt_tokens_max(service_.settings(), replica, request_.max_tokens);
  if (!memory_.hold(besides + request_.prompt.size() +
                    request_.prompt_tokens.size() * sizeof(TokenId)))
    co_return no_room();
  if (request_.prompt_tokens.empty()) {
    auto tokens =
        co_await encode_text(service_, replica, request_.prompt,
                             {request_.add_special_tokens, request_.parse_special_tokens}, most);
    if (!tokens)
      co_return too_long(replica, 0, most);
    request_.prompt_tokens = std::move(*tokens);
    std::string().swap(request_.prompt);
  }
  if (request_.prompt_tokens.size() > most)
    co_return too_long(replica, request_.prompt_tokens.size(), most);
  const std::size_t count = request_.prompt_tokens.size();
  if (!memory_.hold(besides + 2 * count * sizeof(TokenId) + score_bytes(request_, count)))
    co_return no_room(); // The engine has a copy of the ids.
  co_return Result<void>();
}

/// Adds the fields that the server sets. A salt narrows the scopes that a request draws on, of
/// drafts too.
Result<void> GrpcGeneration::prepare(const Admission& admission) {
  const Settings& settings = service_.settings();
  const GrpcCaller& caller = call_->caller();
  if (request_.verify == VerifyRule::automatic)
    request_.verify = settings.defaults.verify;
  if (caller.time_left)
    request_.deadline = std::min(request_.deadline.value_or(*caller.time_left), *caller.time_left);
  if (const auto left = admission.time_left())
    request_.deadline = std::min(request_.deadline.value_or(*left), *left);
  const Holder holder = service_.keys().holder(caller.authorization);
  request_.draft_scope =
      service_.draft_scope(holder.name) + request_.draft_scope + request_.cache_salt;
  request_.cache_salt = service_.cache_scope(holder.name) + request_.cache_salt;
  if (!holder.name.empty()) { // Clients with a key share by the key.
    request_.client = holder.name;
    request_.client_weight = holder.weight;
  }
  return check_bias(request_.sampling);
}

asio::awaitable<Result<void>> GrpcGeneration::answer(Admission& admission, Replica& replica) {
  auto ready = co_await encode(replica);
  if (ready)
    ready = prepare(admission);
  if (ready && request_.constraint)
    ready = co_await service_.check_form(replica.engine(), *request_.constraint);
  if (!ready)
    co_return ready;
  auto opened = replica.engine().submit(request_);
  if (!opened) {
    replica.note_health(opened.error().code != ErrorCode::unavailable);
    co_return tl::unexpected(opened.error());
  }
  service_.metrics().submitted("accepted");
  co_await stream(admission, replica, std::move(*opened));
  co_return Result<void>();
}

/// Streams the answer. The first event tells the client that its request was accepted, or an
/// earlier message if that event takes a while.
asio::awaitable<void> GrpcGeneration::stream(Admission& admission, Replica& replica,
                                             Stream opened) {
  AsyncStream events(service_.executor(), std::move(opened));
  admission.on_cancel([&] { events.cancel(); });
  call_->on_gone([&] { admission.cancel(); });
  const auto beat = std::make_shared<Beat>(service_.executor());
  events.on_end([beat] {
    beat->ended = true;
    beat->timer.cancel();
  });
  Progress progress;
  call_->accept();
  auto event = co_await events.async_next_for(limits::write_beat, asio::use_awaitable);
  if (!event) {
    call_->tell_accepted();
    event = co_await events.async_next(asio::use_awaitable);
  }
  for (;; event = co_await events.async_next(asio::use_awaitable)) {
    if (!event)
      event = engine_closed();
    progress.note(replica, *event, call_->caller().arrived);
    if (auto* end = std::get_if<Finished>(&*event)) {
      note(*end);
      const auto status = end->error ? net::status_of(*end->error) : grpc::Status::OK;
      admission.leave();
      co_await call_->finish(message_of(*event), status);
      break;
    }
    if (!call_->gone())
      co_await call_->write(message_of(*event));
    if (!beat->ended && !call_->gone()) {
      beat->timer.expires_at(service_.next_write(Clock::now()));
      co_await beat->timer.async_wait(as_result);
    }
  }
  call_->on_gone(nullptr);
  admission.on_cancel(nullptr);
}

/// Logs the end. A request that was cancelled without its client asking for that becomes an error.
void GrpcGeneration::note(Finished& end) const {
  if (end.reason == FinishReason::cancelled && !call_->gone()) {
    end.reason = FinishReason::error;
    end.error = not_now(Service::State::draining);
  }
  if (end.error)
    end.error = told(*end.error);
  const GrpcCaller& caller = call_->caller();
  const std::chrono::duration<double, std::milli> took = Clock::now() - caller.arrived;
  service_.log().info("request", {{"id", caller.id},
                                  {"peer", caller.peer},
                                  {"protocol", "grpc"},
                                  {"milliseconds", std::round(took.count() * 10) / 10},
                                  {"prompt_tokens", end.usage.prompt_tokens},
                                  {"completion_tokens", end.usage.completion_tokens},
                                  {"finish", to_string(end.reason)}});
}

} // namespace paceline::apps::serve
