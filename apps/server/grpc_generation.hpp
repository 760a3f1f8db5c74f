// The call Generate: from a message to an answer in a stream.
#pragma once

#include "apps/server/grpc_stream.hpp"

namespace paceline::apps::serve {

/// Takes one call through an engine, on the server's thread. The engine's stream joins events while
/// a message is on its way, so a client that reads slowly costs only ids and text.
class GrpcGeneration {
public:
  /// model: its name; empty: the only one.
  GrpcGeneration(Service& service, std::shared_ptr<GrpcStream> call, std::string model,
                 Request request)
      : service_(service), call_(std::move(call)), model_(std::move(model)),
        request_(std::move(request)), memory_(service.memory()) {}

  boost::asio::awaitable<void> run();

private:
  using Admission = Service::Admission;
  Result<std::unique_ptr<Admission>> enter();
  boost::asio::awaitable<Result<void>> encode(const Replica& replica);
  Result<void> prepare(const Admission& admission);
  boost::asio::awaitable<Result<void>> answer(Admission& admission, Replica& replica);
  boost::asio::awaitable<void> stream(Admission& admission, Replica& replica, Stream stream);
  void note(Finished& end) const;

  Service& service_;
  std::shared_ptr<GrpcStream> call_;
  std::string model_;
  Request request_;
  MemoryShare memory_;
};

/// Counts a refused request. The status names fields as clients know them, and no addresses.
grpc::Status refusal(Service& service, const Error& error);
/// Counts a call by somebody without a key, and refuses it.
grpc::Status no_such_key(Service& service);

} // namespace paceline::apps::serve
