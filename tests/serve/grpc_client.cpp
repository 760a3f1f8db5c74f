#include "tests/serve/grpc_client.hpp"

#include "net/codec.hpp"
#include "net/status.hpp"

#include <doctest/doctest.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <netinet/tcp.h>

namespace paceline::testing {

GrpcClient::GrpcClient(std::uint16_t port, std::string key) : key_(std::move(key)) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  channel_ = grpc::CreateCustomChannel("ipv4:127.0.0.1:" + std::to_string(port),
                                       grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::Paceline::NewStub(channel_);
}

void GrpcClient::introduce(grpc::ClientContext& context) const {
  if (!key_.empty())
    context.AddMetadata("authorization", "Bearer " + key_);
}

GrpcClient::Call::Call(const GrpcClient& client, const Request& request, const std::string& model) {
  v1::GenerateRequest message;
  REQUIRE(net::write(message, request));
  message.set_model(model);
  client.introduce(context_);
  reader_ = client.stub_->Generate(&context_, message);
}

std::string GrpcClient::Call::accepted() {
  reader_->WaitForInitialMetadata();
  const auto& told = context_.GetServerInitialMetadata();
  const auto id = told.find(net::request_id);
  return id == told.end() ? "" : std::string(id->second.data(), id->second.size());
}

std::optional<Event> GrpcClient::Call::next() {
  v1::GenerateEvent message;
  if (!reader_->Read(&message))
    return std::nullopt;
  Event event = net::read(message).value();
  CHECK(!end); // nothing follows it
  if (const auto* delta = std::get_if<Delta>(&event)) {
    text += delta->text;
    tokens.insert(tokens.end(), delta->tokens.begin(), delta->tokens.end());
  } else if (const auto* last = std::get_if<Finished>(&event)) {
    end = *last;
  }
  return event;
}

grpc::Status GrpcClient::Call::finish() {
  while (next()) {
  }
  return reader_->Finish();
}

GrpcClient::Outcome GrpcClient::generate(const Request& request, const std::string& model) const {
  const auto call = start(request, model);
  Outcome outcome;
  outcome.status = call->finish();
  outcome.end = call->end;
  outcome.error = net::told_by(outcome.status);
  outcome.text = call->text;
  outcome.tokens = call->tokens;
  return outcome;
}

grpc::Status GrpcClient::models(v1::ModelsReply& reply) const {
  grpc::ClientContext context;
  introduce(context);
  return stub_->Models(&context, {}, &reply);
}

grpc::Status GrpcClient::tokenize(const v1::TokenizeRequest& request,
                                  v1::TokenizeReply& reply) const {
  grpc::ClientContext context;
  introduce(context);
  return stub_->Tokenize(&context, request, &reply);
}

bool vanish(boost::asio::ip::tcp::socket& socket) {
  const int on = 1;
  if (setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
    return false;
  socket.close();
  return true;
}

} // namespace paceline::testing
