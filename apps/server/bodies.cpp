#include "apps/server/bodies.hpp"

#include "apps/server/fields.hpp"

#include <climits>

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

int vocabulary_of(const Vocabularies& vocabularies, const boost::json::object& body) {
  const auto* name = body.if_contains("model");
  const auto* text = name ? name->if_string() : nullptr;
  const auto known = vocabularies.find(text ? std::string_view(*text) : std::string_view());
  return known == vocabularies.end() ? INT_MAX : known->second;
}

} // namespace paceline::apps::serve
