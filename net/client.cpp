#include "paceline/client.hpp"

#include "net/client_network.hpp"

namespace paceline {

Client::Client(executor_type executor, ClientOptions options)
    : executor_(std::move(executor)), network_(std::make_shared<Network>(std::move(options))),
      thread_([network = network_] { network->run(); }) {}

Client::~Client() {
  if (network_)
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
  network->connect(id, std::move(done));
}
void Client::start_health(const SharedNetwork& network, std::uint64_t id, Done<ServerHealth> done) {
  network->health(id, std::move(done));
}
void Client::start_submit(const SharedNetwork& network, std::uint64_t id, Request request,
                          SubmitOptions options, Done<Stream> done) {
  network->submit(id, std::move(request), options, std::move(done));
}
void Client::cancel(const std::weak_ptr<Network>& network, std::uint64_t id) {
  if (const auto here = network.lock())
    here->cancel(id);
}

} // namespace paceline
