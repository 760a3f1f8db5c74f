#include "paceline/client.hpp"

#include "net/client_network.hpp"

namespace paceline {

Client::Client(executor_type executor, ClientOptions options)
    : executor_(std::move(executor)), network_(std::make_shared<Network>(std::move(options))),
      thread_([network = network_] { network->run(); }) {}

namespace {

const Error of_another_process{ErrorCode::unavailable,
                               "the client belongs to the process that made it",
                               "make one in the child"};

} // namespace

/// In a forked child there is no thread to close the network or to wait for: it stays as it is.
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
  thread_ = std::move(other.thread_);
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
