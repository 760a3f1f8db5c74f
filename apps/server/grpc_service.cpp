#include "apps/server/grpc_service.hpp"

#include "apps/server/grpc_generation.hpp"
#include "apps/server/prompts.hpp"
#include "net/codec.hpp"
#include "net/status.hpp"
#include "paceline/version.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>
#include <exception>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

using Work = asio::awaitable<grpc::Status>;

/// Returns the status that ends a call after an exception, which the rest of the server does not
/// feel.
grpc::Status failed(Service& service, const char* what) {
  service.log().write(LogLevel::error, "exception", {{"what", what}});
  return net::status_of({ErrorCode::internal, "the server failed at this call", "try it again"});
}

asio::awaitable<void> generate(Service& service, std::shared_ptr<GrpcStream> call,
                               std::string model, Request request) {
  grpc::Status ended;
  try {
    GrpcGeneration generation(service, call, std::move(model), std::move(request));
    co_await generation.run();
  } catch (const std::exception& error) {
    ended = failed(service, error.what());
  }
  co_await call->finish(ended); // Does nothing if the call is finished already.
}

Work tokenize(Service& service, const v1::TokenizeRequest& request, v1::TokenizeReply& reply) {
  const auto replica = service.fleet().any(request.model());
  if (!replica)
    co_return refusal(service, error_of(replica.error()));
  MemoryShare memory(service.memory());
  // A byte is a token at most, which is held twice before the reply is sent.
  if (!memory.hold(request.prompt().size() * (1 + 2 * sizeof(TokenId))))
    co_return refusal(service, error_of(no_request_memory()));
  const bool add = !request.has_add_special_tokens() || request.add_special_tokens();
  const auto tokens = co_await encode_text(service, **replica, request.prompt(),
                                           {add, request.parse_special_tokens()}, SIZE_MAX / 4);
  reply.mutable_tokens()->Add(tokens->begin(), tokens->end());
  reply.set_max_model_len((*replica)->max_model_len());
  co_return grpc::Status::OK;
}

Work models(Service& service, v1::ModelsReply& reply) {
  reply.set_server("paceline/" PACELINE_VERSION);
  for (const Fleet::Served& one : service.fleet().served()) {
    v1::ModelsReply::Model& model = *reply.add_models();
    model.set_name(one.name);
    model.set_max_model_len(one.max_model_len.value_or(0));
  }
  reply.set_ready(service.ready());
  reply.set_healthy(service.fleet().well());
  co_return grpc::Status::OK;
}

/// Answers a call that has one answer, if its caller has a key.
template <class Call>
grpc::ServerUnaryReactor* answer(Service& service, grpc::CallbackServerContext& context,
                                 Call call) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  const GrpcCaller caller(context);
  asio::co_spawn(
      service.executor(),
      [&service, call, authorization = caller.authorization]() -> Work {
        if (!service.keys().accept(authorization))
          co_return no_such_key(service);
        co_return co_await call();
      },
      [&service, reactor](const std::exception_ptr& thrown, grpc::Status status) {
        try {
          if (thrown)
            std::rethrow_exception(thrown);
        } catch (const std::exception& error) {
          status = failed(service, error.what());
        }
        reactor->Finish(std::move(status));
      });
  return reactor;
}

} // namespace

grpc::ServerWriteReactor<v1::GenerateEvent>*
GrpcService::Generate(grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const auto call = std::make_shared<GrpcStream>(service_, *context);
  call->keep(call);
  auto asked = net::read(*request);
  if (asked)
    asio::co_spawn(service_.executor(),
                   generate(service_, call, request->model(), std::move(*asked)), asio::detached);
  else
    call->Finish(net::status_of(asked.error()));
  return call.get();
}

grpc::ServerUnaryReactor* GrpcService::Tokenize(grpc::CallbackServerContext* context,
                                                const v1::TokenizeRequest* request,
                                                v1::TokenizeReply* reply) {
  return answer(service_, *context,
                [this, request, reply] { return tokenize(service_, *request, *reply); });
}

grpc::ServerUnaryReactor* GrpcService::Models(grpc::CallbackServerContext* context,
                                              const v1::ModelsRequest*, v1::ModelsReply* reply) {
  return answer(service_, *context, [this, reply] { return models(service_, *reply); });
}

} // namespace paceline::apps::serve
