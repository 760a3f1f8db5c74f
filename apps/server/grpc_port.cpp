#include "apps/server/grpc_port.hpp"

#include "apps/console/limits.hpp"
#include "apps/server/grpc_service.hpp"
#include "apps/server/hangups.hpp"
#include "apps/server/transport.hpp"
#include "net/limits.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <iterator>
#include <mutex>
#include <thread>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;

/// Sets what all servers of the process have in common, before the first of them. The libraries'
/// own logs would stand between the lines of the server's, so they are silenced; gRPC's unless
/// somebody asked for it.
void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    if (std::getenv("GRPC_VERBOSITY") == nullptr)
      gpr_set_log_function([](gpr_log_func_args*) {});
    google::protobuf::SetLogHandler(nullptr); // It would log clients' broken texts.
  });
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator(file), {}};
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const Settings& settings) {
  if (settings.tls_certificate.empty())
    return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions own;
  own.pem_key_cert_pairs.push_back({text_of(settings.tls_key), text_of(settings.tls_certificate)});
  return grpc::SslServerCredentials(own);
}

/// Sets the operator's bounds as options of gRPC.
void bound(grpc::ServerBuilder& builder, const Settings& settings) {
  const auto set = [&builder](const char* name, auto value) {
    builder.AddChannelArgument(name, int(std::clamp<std::int64_t>(value, 1, INT_MAX)));
  };
  builder.SetMaxReceiveMessageSize(int(std::min<std::size_t>(settings.max_body_bytes, INT_MAX)));
  set(GRPC_ARG_MAX_METADATA_SIZE, limits::metadata_bytes);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, settings.max_open + limits::other_calls);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, settings.receive_timeout.count());
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, settings.idle_timeout.count());
  // A connection may be silent for half of the time; then it has the other half to answer a ping.
  set(GRPC_ARG_KEEPALIVE_TIME_MS, settings.idle_timeout.count() / 2);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, settings.idle_timeout.count() / 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0); // 0: any number.
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, (net::limits::ping_pause / 2).count());
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false); // HTTP does not either.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetResourceQuota(grpc::ResourceQuota("paceline").Resize(settings.max_request_memory));
}

} // namespace

struct GrpcPort::Inside {
  explicit Inside(Service& of)
      : service(of), calls(of), hangups(of.executor(), [&of] {
          --of.connections;
          --of.grpc_connections;
        }) {}

  Service& service;
  GrpcService calls;
  Hangups hangups;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> door;
  std::unique_ptr<grpc::Server> server;
  std::optional<bool> told; ///< The health service's last answer.
  std::thread closing;
};

GrpcPort::GrpcPort(Service& service) : inside_(std::make_unique<Inside>(service)) {
  prepare_process();
  grpc::ServerBuilder builder;
  bound(builder, service.settings());
  builder.RegisterService(&inside_->calls);
  inside_->door = builder.experimental().AddExternalConnectionAcceptor(
      External::FROM_FD, credentials_of(service.settings()));
  inside_->server = builder.BuildAndStart();
  tell_health();
}

GrpcPort::~GrpcPort() {
  if (inside_->closing.joinable())
    inside_->closing.join();
}

void GrpcPort::take(asio::ip::tcp::socket socket) {
  Service& service = inside_->service;
  set_options(socket, service.settings().write_timeout);
  boost::system::error_code failed;
  socket.native_non_blocking(true, failed);
  if (failed || !inside_->hangups.watch(socket.native_handle()))
    return;
  ++service.connections;
  ++service.grpc_connections;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release(failed);
  if (!failed)
    inside_->door->HandleNewConnection(&connection);
}

void GrpcPort::tell_health() {
  const bool ready = inside_->service.ready();
  if (std::exchange(inside_->told, ready) == ready)
    return;
  auto* health = inside_->server->GetHealthCheckService();
  health->SetServingStatus(ready); // "" is the server as a whole.
  health->SetServingStatus(v1::Paceline::service_full_name(), ready);
}

/// Shuts gRPC down on a thread of its own, because gRPC waits for its calls, which end on the
/// server's thread.
void GrpcPort::shut_down(std::chrono::milliseconds grace) {
  if (inside_->closing.joinable())
    return; // It has begun already.
  const auto executor = inside_->service.executor();
  inside_->closing = std::thread([self = shared_from_this(), grace, executor,
                                  work = asio::make_work_guard(executor)]() mutable {
    self->inside_->server->Shutdown(std::chrono::system_clock::now() + grace);
    asio::post(executor, [self = std::move(self)] { self->inside_->hangups.stop(); });
  });
}

} // namespace paceline::apps::serve
