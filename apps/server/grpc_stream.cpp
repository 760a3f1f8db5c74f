#include "apps/server/grpc_stream.hpp"

#include "apps/server/transport.hpp"
#include "net/status.hpp"

#include <boost/asio/post.hpp>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

std::string metadata_of(const grpc::CallbackServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::string()
                            : std::string(found->second.data(), found->second.size());
}

/// Makes "ipv4:127.0.0.1:40312" the name that an HTTP peer has, "127.0.0.1:40312".
std::string peer_of(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  return peer.substr(peer.find(':') + 1);
}

} // namespace

GrpcCaller::GrpcCaller(const grpc::CallbackServerContext& context)
    : peer(peer_of(context)), id(request_id(metadata_of(context, net::request_id))),
      authorization(metadata_of(context, "authorization")) {
  if (const auto deadline = context.deadline(); deadline != decltype(deadline)::max())
    time_left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::system_clock::now());
}

GrpcStream::GrpcStream(Service& service, grpc::CallbackServerContext& context)
    : service_(service), caller_(context),
      taking_(std::make_shared<Watchdog>(service.executor(), [this] { cut_off(); })),
      news_(service.executor(), asio::steady_timer::time_point::max()), context_(&context) {}

void GrpcStream::on_gone(std::function<void()> action) {
  on_gone_ = std::move(action);
  if (gone_ && on_gone_)
    std::exchange(on_gone_, nullptr)();
}

void GrpcStream::accept() {
  context_->AddInitialMetadata(net::request_id, caller_.id);
}

void GrpcStream::leave() {
  gone_ = true;
  if (on_gone_)
    std::exchange(on_gone_, nullptr)();
}

/// Ends the call, because the client has taken nothing for too long.
void GrpcStream::cut_off() {
  const std::lock_guard lock(mutex_);
  if (context_)
    context_->TryCancel();
}

asio::awaitable<void> GrpcStream::sent() {
  taking_->set(service_.settings().write_timeout);
  while (under_way_)
    co_await news_.async_wait(as_result);
  taking_->clear();
}

asio::awaitable<void> GrpcStream::write(v1::GenerateEvent event) {
  event_ = std::move(event);
  under_way_ = true;
  StartWrite(&event_);
  co_await sent();
}

asio::awaitable<void> GrpcStream::finish(v1::GenerateEvent last, grpc::Status status) {
  event_ = std::move(last);
  under_way_ = finished_ = true;
  StartWriteAndFinish(&event_, {}, status);
  co_await sent();
}

asio::awaitable<void> GrpcStream::finish(grpc::Status status) {
  if (finished_)
    co_return;
  under_way_ = finished_ = true;
  Finish(status);
  co_await sent();
}

void GrpcStream::OnWriteDone(bool) {
  asio::post(service_.executor(), [self = shared_from_this()] {
    self->under_way_ = false;
    self->news_.cancel();
  });
}

void GrpcStream::OnCancel() {
  asio::post(service_.executor(), [self = shared_from_this()] { self->leave(); });
}

void GrpcStream::OnDone() {
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }
  asio::post(service_.executor(), [self = std::move(self_)] {
    self->under_way_ = false;
    self->news_.cancel();
  });
}

} // namespace paceline::apps::serve
