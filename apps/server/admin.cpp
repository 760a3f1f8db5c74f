#include "apps/server/admin.hpp"

#include "apps/server/bodies.hpp"
#include "apps/server/fields.hpp"

#include <cstdint>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace json = boost::json;
namespace {

constexpr double shortest_ms = 1e-3;
constexpr double longest_ms = 1e9;

std::optional<double> seconds(Fields& fields, const char* name) {
  const auto ms = fields.number(name, {shortest_ms, longest_ms});
  return ms ? std::optional(*ms / 1e3) : std::nullopt;
}

std::optional<ApiError> read_loading(const json::object& body, Fleet::Loading& asked) {
  Fields fields(body);
  asked.model.name = fields.text("model").value_or("");
  asked.model.checkpoint = fields.text("checkpoint").value_or("");
  asked.model.draft = fields.text("draft").value_or("");
  asked.device = fields.text("device").value_or("");
  if (const auto bytes = fields.integer("memory_bytes", 1, INT64_MAX))
    asked.memory_bytes = std::uint64_t(*bytes);
  asked.latency_seconds = seconds(fields, "latency_ms");
  asked.objective_seconds = seconds(fields, "objective_ms");
  if (asked.model.name.empty())
    fields.wrong("model", "the name under which clients ask for it");
  return fields.error();
}

std::optional<ApiError> no_placement(const Service& service) {
  if (service.fleet().manages())
    return std::nullopt;
  return ApiError{.status = 409,
                  .message = "this server has one model and no placement: it neither loads nor "
                             "unloads any",
                  .code = "conflict"};
}

} // namespace

asio::awaitable<void> load_model(Service& service, Exchange& exchange) {
  Fleet::Loading asked;
  const BodyReader read = [&](const json::object& body) { return read_loading(body, asked); };
  auto wrong = co_await read_body(service, exchange, read);
  if (!wrong)
    wrong = no_placement(service);
  if (wrong)
    co_return co_await exchange.send(*wrong);
  const std::string name = asked.model.name;
  const auto device = co_await service.fleet().load(std::move(asked));
  if (!device)
    co_return co_await exchange.send(device.error());
  const json::object reply{{"model", name}, {"device", *device}, {"status", "loaded"}};
  co_await exchange.send_json(reply);
}

asio::awaitable<void> unload_model(Service& service, Exchange& exchange) {
  std::string name;
  std::string device;
  const BodyReader read = [&](const json::object& body) {
    Fields fields(body);
    name = fields.text("model").value_or("");
    device = fields.text("device").value_or("");
    if (name.empty())
      fields.wrong("model", "the name of a model that is loaded");
    return fields.error();
  };
  auto wrong = co_await read_body(service, exchange, read);
  if (!wrong)
    wrong = no_placement(service);
  if (wrong)
    co_return co_await exchange.send(*wrong);
  const auto unloaded = co_await service.fleet().unload(name, device);
  if (!unloaded)
    co_return co_await exchange.send(unloaded.error());
  const json::object reply{{"model", name}, {"status", "unloaded"}};
  co_await exchange.send_json(reply);
}

} // namespace paceline::apps::serve
