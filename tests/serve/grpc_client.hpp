// A client of the gRPC port of the simplest kind, for tests: the stub as it is, blocking.
#pragma once

#include "net/paceline.grpc.pb.h"
#include "paceline/event.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::testing {

class GrpcClient {
public:
  /// key: "" for none. Each object has a connection of its own.
  explicit GrpcClient(std::uint16_t port, std::string key = {});

  /// A call under way.
  class Call {
  public:
    Call(const GrpcClient& client, const Request& request, const std::string& model);
    ~Call() { cancel(); }

    /// The id that the server gave it, when that is told; "" where it was refused.
    std::string accepted();
    /// The next event; none: the call has ended.
    std::optional<Event> next();
    /// What is left of it, to its end.
    grpc::Status finish();
    void cancel() { context_.TryCancel(); }

    std::string text{};            ///< Of what was read,
    std::vector<TokenId> tokens{}; ///< likewise,
    std::optional<Finished> end{}; ///< and the last event.

  private:
    friend GrpcClient;
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> reader_;
  };
  std::unique_ptr<Call> start(const Request& request, const std::string& model = {}) const {
    return std::make_unique<Call>(*this, request, model);
  }
  /// A whole call: how it ended.
  struct Outcome {
    grpc::Status status;
    std::optional<Finished> end;
    std::optional<Error> error; ///< In the status.
    std::string text;
    std::vector<TokenId> tokens;
  };
  Outcome generate(const Request& request, const std::string& model = {}) const;

  grpc::Status models(v1::ModelsReply& reply) const;
  grpc::Status tokenize(const v1::TokenizeRequest& request, v1::TokenizeReply& reply) const;
  void introduce(grpc::ClientContext& context) const;
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Paceline::Stub& stub() const { return *stub_; }

private:
  std::string key_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Paceline::Stub> stub_;
};

/// Makes a socket forget its connection without a word to the other side. False: not permitted
/// here.
bool vanish(boost::asio::ip::tcp::socket& socket);

} // namespace paceline::testing
