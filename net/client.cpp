#include "paceline/client.hpp"

#include "net/client_network.hpp"
#include "net/codec.hpp"
#include "net/limits.hpp"
#include "net/status.hpp"
#include "paceline/version.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <iterator>

namespace paceline {
namespace {

using Clock = std::chrono::system_clock; // as gRPC counts

const Error closed_here{ErrorCode::cancelled, "the client was closed", ""};
const Error cancelled_here{ErrorCode::cancelled, "the operation was cancelled", ""};
const Error loading{ErrorCode::unavailable, "the server is loading its model", "try again later"};
const Error of_another_process{ErrorCode::unavailable,
                               "the client belongs to the process that made it",
                               "start a program of its own in the child"};

/// Returns whether gRPC's threads are here: a forked child does not have them. gRPC ends its
/// threads with its last channel, and crashes if one of them releases that; so one channel, to
/// nowhere, stays.
bool in_process_of_threads() {
  struct Kept {
    base::OwnProcess process{};
    grpc::ClientContext context{};
    v1::ModelsRequest request{};
    v1::ModelsReply reply{};
    std::unique_ptr<v1::Paceline::Stub> stub =
        v1::Paceline::NewStub(grpc::CreateChannel("", nullptr));
  };
  static const Kept* const kept = [] {
    auto* one = new Kept;
    one->stub->async()->Models(&one->context, &one->request, &one->reply,
                               [](const grpc::Status&) {});
    return one;
  }();
  return kept->process.here();
}

bool repeats_itself(const Request& request) {
  const Sampling& sampling = request.sampling;
  return sampling.seed || (sampling.temperature && *sampling.temperature == 0);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_of(const ClientOptions& options) {
  if (!options.tls)
    return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions trust;
  if (!options.tls_authorities.empty()) {
    std::ifstream file(options.tls_authorities);
    trust.pem_root_certs.assign(std::istreambuf_iterator(file), {});
    if (trust.pem_root_certs.empty())
      return fail(ErrorCode::unavailable,
                  "cannot read the authorities in " + options.tls_authorities,
                  "give a PEM file that this user may read");
  }
  return grpc::SslCredentials(trust);
}

/// Returns the channel's settings. gRPC connects again by itself, but this client decides how often
/// it tries, and asks for each attempt.
grpc::ChannelArguments arguments_of(const ClientOptions& options) {
  const auto milliseconds = [](auto time) { return int(time.count()); };
  const auto ping = std::max(options.silence / 2, net::limits::ping_pause);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(net::limits::client_message_bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(ping));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   milliseconds(options.silence - options.silence / 2));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0); // any number
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, milliseconds(options.reconnect_pause));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, milliseconds(options.reconnect_pause_max));
  arguments.SetUserAgentPrefix("paceline-client/" PACELINE_VERSION);
  return arguments;
}

} // namespace

Client::Network::Network(ClientOptions options)
    : options_(std::move(options)), pause_(options_.reconnect_pause) {
  if (!in_process_of_threads()) {
    unusable_ = of_another_process;
    return;
  }
  const auto credentials = credentials_of(options_);
  if (!credentials) {
    unusable_ = credentials.error();
    return;
  }
  channel_ = grpc::CreateCustomChannel("dns:///" + place(), *credentials, arguments_of(options_));
  stub_ = v1::Paceline::NewStub(channel_);
}

std::string Client::Network::place() const {
  const bool six = options_.host.find(':') != std::string::npos && options_.host.front() != '[';
  return fmt::format("{}{}{}:{}", six ? "[" : "", options_.host, six ? "]" : "", options_.port);
}

void Client::Network::introduce(grpc::ClientContext& context) const {
  if (!options_.api_key.empty())
    context.AddMetadata("authorization", "Bearer " + options_.api_key);
}

void Client::Network::connect(std::uint64_t id, Done<ServerInfo> done) {
  await_connection(id, {[done = std::move(done)](const Answer& answer) {
                     done(answer.map([](const v1::ModelsReply& reply) {
                       return ServerInfo{.server = reply.server(),
                                         .model =
                                             reply.models().empty() ? "" : reply.models(0).name(),
                                         .ready = reply.ready()};
                     }));
                   }});
}

void Client::Network::health(std::uint64_t id, Done<ServerHealth> done) {
  await_connection(id, {[done = std::move(done)](const Answer& answer) {
                     done(answer.map([](const v1::ModelsReply& reply) {
                       return ServerHealth{.ready = reply.ready(), .healthy = reply.healthy()};
                     }));
                   }});
}

void Client::Network::submit(std::uint64_t id, Request request, SubmitOptions options,
                             Done<Stream> done) {
  if (options.retries > 0 && !repeats_itself(request))
    return done(fail(ErrorCode::invalid_argument,
                     "only a request whose answer repeats itself can be retried",
                     "give it a seed, or temperature 0"));
  const auto one = std::make_shared<net::Submission>(shared_from_this(), id, std::move(request),
                                                     options, callbacks_, std::move(done));
  bool closed = false;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    if (!closed)
      submissions_.emplace(id, one);
  }
  if (closed)
    one->end(FinishReason::cancelled, closed_here);
  else if (channel_ && channel_->GetState(false) == GRPC_CHANNEL_READY)
    one->begin();
  else
    reach(id, one);
}

void Client::Network::reach(std::uint64_t id, const std::shared_ptr<net::Submission>& one) {
  const auto told = [one](const Answer& answer) {
    if (answer)
      one->begin();
    else
      one->end(FinishReason::error, answer.error());
  };
  await_connection(id, {told, true});
}

void Client::Network::forget(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  submissions_.erase(id);
}

void Client::Network::cancel(std::uint64_t id) {
  std::shared_ptr<net::Submission> submission;
  Told told;
  {
    const std::lock_guard lock(mutex_);
    if (auto node = waiting_.extract(id))
      told = std::move(node.mapped().told);
    if (const auto at = submissions_.find(id); at != submissions_.end())
      submission = at->second;
  }
  if (submission)
    submission->end(FinishReason::cancelled, cancelled_here);
  else if (told)
    told(tl::unexpected(cancelled_here));
}

void Client::Network::close() {
  std::map<std::uint64_t, std::shared_ptr<net::Submission>> submissions;
  std::map<std::uint64_t, Waiting> waiting;
  std::shared_ptr<Probe> probe;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    submissions.swap(submissions_);
    waiting.swap(waiting_);
    probe = probe_;
  }
  resting_.Cancel();
  if (probe)
    probe->context.TryCancel();
  for (const auto& [id, one] : submissions)
    one->end(FinishReason::cancelled, closed_here);
  for (const auto& [id, one] : waiting)
    one.told(tl::unexpected(closed_here)); // a submission has been told already
}

// --- the connection

void Client::Network::await_connection(std::uint64_t id, Waiting one) {
  std::optional<Error> wrong = unusable_;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      wrong = closed_here;
    if (!wrong) {
      waiting_.emplace(id, one);
      first = !std::exchange(probing_, true);
    }
  }
  if (wrong)
    one.told(tl::unexpected(*wrong));
  else if (first)
    probe();
}

/// Asks the server who it is, on behalf of all operations that wait.
void Client::Network::probe() {
  const auto call = std::make_shared<Probe>();
  introduce(call->context);
  call->context.set_deadline(Clock::now() + options_.connect_timeout);
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      return;
    probe_ = call;
  }
  grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
  stub_->async()->Models(&call->context, &call->request, &call->reply,
                         [self = shared_from_this(), call](const grpc::Status& status) {
                           self->probed(status, call->reply);
                         });
}

void Client::Network::probed(const grpc::Status& status, const v1::ModelsReply& reply) {
  const auto refused = net::told_by(status);
  Answer answer(reply);
  if (!status.ok())
    answer = tl::unexpected(refused ? *refused : net::error_of(status, place()));
  const Settled settled = settle(answer, refused.has_value());
  for (const Told& told : settled.told)
    told(answer);
  for (const Told& told : settled.given_up)
    told(answer ? tl::unexpected(loading) : tl::unexpected(answer.error()));
  if (settled.pause)
    resting_.Set(Clock::now() + *settled.pause,
                 [self = shared_from_this()](bool) { self->probe(); });
}

/// Decides which operations wait no longer. A server that was restarted may be loading: submissions
/// go on waiting for it.
Client::Network::Settled Client::Network::settle(const Answer& answer, bool refused) {
  Settled settled;
  const std::lock_guard lock(mutex_);
  probe_.reset();
  const bool is_loading = answer && ever_ && !answer->ready();
  const bool failed = !answer || is_loading;
  ever_ = ever_ || answer;
  failures_ = failed ? failures_ + 1 : 0;
  const bool hopeless = !ever_ || refused || failures_ >= options_.reconnect_tries;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const bool told = answer && !(is_loading && at->second.for_ready);
    if (told || hopeless) {
      (told ? settled.told : settled.given_up).push_back(std::move(at->second.told));
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
  if (!failed || hopeless) {
    failures_ = 0;
    pause_ = options_.reconnect_pause;
  }
  probing_ = !waiting_.empty() && !closed_;
  if (probing_) {
    // A pause between half and all of it, so that the clients of a server that went away do not
    // come back all at once.
    std::uniform_int_distribution<std::int64_t> time(pause_.count() / 2, pause_.count());
    settled.pause = std::chrono::milliseconds(time(chance_));
    pause_ = std::min(2 * pause_, options_.reconnect_pause_max);
  }
  return settled;
}

// --- the public object

Client::Client(executor_type executor, ClientOptions options)
    : executor_(std::move(executor)), network_(std::make_shared<Network>(std::move(options))) {}

/// gRPC's threads, which end the network, do not exist in a forked child: there it stays as it is.
Client::~Client() {
  if (network_ && !network_->in_its_process())
    new Client(std::move(*this));
  else if (network_)
    network_->close();
}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  const Client old(std::move(*this)); // closes
  executor_ = std::move(other.executor_);
  network_ = std::move(other.network_);
  return *this;
}

std::uint64_t Client::next_operation(const SharedNetwork& network) {
  return network->next_operation();
}
void Client::start_connect(const SharedNetwork& network, std::uint64_t id, Done<ServerInfo> done) {
  if (!network->in_its_process())
    return done(tl::unexpected(of_another_process));
  network->connect(id, std::move(done));
}
void Client::start_health(const SharedNetwork& network, std::uint64_t id, Done<ServerHealth> done) {
  if (!network->in_its_process())
    return done(tl::unexpected(of_another_process));
  network->health(id, std::move(done));
}
void Client::start_submit(const SharedNetwork& network, std::uint64_t id, Request request,
                          SubmitOptions options, Done<Stream> done) {
  if (!network->in_its_process())
    return done(tl::unexpected(of_another_process));
  network->submit(id, std::move(request), options, std::move(done));
}
void Client::cancel(const std::weak_ptr<Network>& network, std::uint64_t id) {
  if (const auto here = network.lock(); here && here->in_its_process())
    here->cancel(id);
}

} // namespace paceline
