#include "apps/serve/bodies.hpp"

#include "apps/serve/fields.hpp"

namespace paceline::apps::serve {
namespace asio = boost::asio;

asio::awaitable<std::optional<ApiError>> read_body(Service& service, Exchange& exchange,
                                                   const BodyReader& read) {
  const std::string body = exchange.take_body();
  std::optional<ApiError> wrong;
  co_await service.aside(body.size(), [&] {
    const auto object = parse_object(body, boost::json::storage_ptr(&exchange.memory()));
    wrong = object ? read(*object) : object.error();
  });
  co_return wrong;
}

} // namespace paceline::apps::serve
