// The calls of paceline.proto.
#pragma once

#include "apps/server/service.hpp"
#include "net/paceline.grpc.pb.h"

namespace paceline::apps::serve {

/// gRPC's threads hand each call to the server's, where it is answered.
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
  serve::Service& service_; // not the one of this name in what is implemented
};

} // namespace paceline::apps::serve
