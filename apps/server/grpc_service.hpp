// The calls of paceline.proto.
#pragma once

#include "apps/server/service.hpp"
#include "net/paceline.grpc.pb.h"

namespace paceline::apps::serve {

/// The service's calls: gRPC's threads hand each call to the server's thread, which answers it.
class GrpcService final : public v1::Paceline::CallbackService {
public:
  /// service: must outlive this.
  explicit GrpcService(serve::Service& service) : service_(service) {}

  grpc::ServerWriteReactor<v1::GenerateEvent>*
  Generate(grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeReply* reply) override;
  grpc::ServerUnaryReactor* Models(grpc::CallbackServerContext* context,
                                   const v1::ModelsRequest* request,
                                   v1::ModelsReply* reply) override;

private:
  serve::Service& service_; // serve::Service differs from the Service of the base class.
};

} // namespace paceline::apps::serve
